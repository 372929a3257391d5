"""The gate's verdict as JUnit XML: a regression fails, what was not measured errs, what is undecided is skipped.

One test case for each point and metric. Numbers stand in the text, since readers drop attributes that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from ...analysis.gate.matching import ALL
from ...analysis.gate.result import GateResult, Levels
from ...analysis.gate.suite import Geomean, SuiteVerdict
from ...analysis.gate.verdict import Reason, Verdict
from .characters import readable
from .words import sentence, signed

_ELEMENTS = {
    Verdict.FAIL: ("failure", "PerfRegression"), Verdict.ERROR: ("error", "NotMeasured"),
    Verdict.INCOMPARABLE: ("skipped", "incomparable"), Verdict.INCONCLUSIVE: ("skipped", "inconclusive"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Case:
    point: str
    metric: str
    verdict: Verdict
    reason: Reason
    text: str

    @property
    def element(self) -> str:
        return _ELEMENTS.get(self.verdict, ("", ""))[0]


def render_junit(result: GateResult) -> str:
    """`result` as an XML document, notes and machine as its properties; ends with a newline."""
    cases = list(_cases(result)) or [_nothing(result.suite)]
    kinds = [case.element for case in cases]
    counts = {
        "tests": str(len(cases)), "failures": str(kinds.count("failure")), "errors": str(kinds.count("error")),
    }  # fmt: skip
    root = ElementTree.Element("testsuites", {"name": "perf gate", **counts})
    skipped = str(kinds.count("skipped"))
    group = ElementTree.SubElement(root, "testsuite", {"name": "perf.gate", **counts, "skipped": skipped})
    facts = [("verdict", result.suite.verdict.value), ("base", result.base), ("head", result.head)]
    facts += [(name, text) for name, text in (("commit", result.commit), ("time", result.time)) if text is not None]
    facts += [("note", note) for note in result.notes]
    facts += [(f"machine.{key}", str(value)) for key, value in result.machine.items() if value is not None]
    properties = ElementTree.SubElement(group, "properties")
    for name, value in facts:
        ElementTree.SubElement(properties, "property", name=readable(name), value=readable(value))
    for case in cases:
        _write(group, case)
    ElementTree.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _cases(result: GateResult) -> Iterator[_Case]:
    for point in result.suite.points:
        levels = result.levels.get((point.point, point.metric))
        text = "; ".join(part for part in (sentence(point), _arms(levels)) if part)
        yield _Case(point.point, point.metric, point.verdict, point.reason, text)
    for metric, found in result.suite.geomeans.items():
        yield _Case(ALL, metric, found.verdict, found.reason, _together(found))


def _nothing(suite: SuiteVerdict) -> _Case:
    return _Case(ALL, ALL, suite.verdict, Reason.NOTHING_MEASURED, Reason.NOTHING_MEASURED.value)


def _write(group: ElementTree.Element, case: _Case) -> None:
    metric = "measurement" if case.metric == ALL else readable(case.metric)
    # a point may be called "all points", but its case has the metric behind two colons
    name = "all points" if case.point == ALL else f"{readable(case.point)}::{metric}"
    node = ElementTree.SubElement(group, "testcase", classname=f"perf.{metric}", name=name)
    if case.element:
        kind = _ELEMENTS[case.verdict][1]
        message = f"{case.verdict.value} {case.reason.value}"
        ElementTree.SubElement(node, case.element, type=kind, message=message).text = readable(case.text)


def _arms(levels: Levels | None) -> str:
    """"base 11.84, head 12.41", in the metric's own unit, which its name carries."""
    if levels is None:
        return ""
    found = (("base", levels.base), ("head", levels.head))
    return ", ".join(f"{arm} {level.value:.6g}" for arm, level in found if level is not None)


def _together(found: Geomean) -> str:
    return f"{signed(found.effect)} (90 %: {signed(found.low)} to {signed(found.high)}), {found.points} points"
