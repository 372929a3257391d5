"""The gate's verdict as JUnit XML: a regression fails, what was not measured errs, what is undecided is skipped.

One test case for each point and metric. Numbers stand in the text, since readers drop attributes that they do not know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from ...analysis.gate.matching import ALL
from ...analysis.gate.suite import Geomean, SuiteVerdict
from ...analysis.gate.verdict import Reason, Verdict
from .words import sentence, signed

_ELEMENTS = {
    Verdict.FAIL: ("failure", "PerfRegression"), Verdict.ERROR: ("error", "NotMeasured"),
    Verdict.INCOMPARABLE: ("skipped", "incomparable"), Verdict.INCONCLUSIVE: ("skipped", "inconclusive"),
}  # fmt: skip
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(suite: SuiteVerdict, notes: Sequence[str] = ()) -> str:
    """`suite` as an XML document, `notes` as its properties; ends with a newline."""
    cases = [(_case(point.point, point.metric), point.verdict, point.reason, sentence(point)) for point in suite.points]
    cases += [(_case(ALL, metric), found.verdict, found.reason, _together(found))
              for metric, found in suite.geomeans.items()]  # fmt: skip
    if not cases:
        cases = [(_case(ALL, ALL), suite.verdict, Reason.NOTHING_MEASURED, Reason.NOTHING_MEASURED.value)]
    kinds = [_ELEMENTS.get(verdict, ("", ""))[0] for _, verdict, _, _ in cases]
    counts = {
        "tests": str(len(cases)), "failures": str(kinds.count("failure")), "errors": str(kinds.count("error")),
    }  # fmt: skip
    root = ElementTree.Element("testsuites", {"name": "perf gate", **counts})
    skipped = str(kinds.count("skipped"))
    group = ElementTree.SubElement(root, "testsuite", {"name": "perf.gate", **counts, "skipped": skipped})
    if notes:
        properties = ElementTree.SubElement(group, "properties")
        for note in notes:
            ElementTree.SubElement(properties, "property", name="note", value=_NOT_XML.sub("?", note))
    for case, verdict, reason, text in cases:
        _write(group, case, (verdict, reason), _NOT_XML.sub("?", text))
    ElementTree.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _case(point: str, metric: str) -> tuple[str, str]:
    return "all points" if point == ALL else point, "measurement" if metric == ALL else metric


def _write(
    group: ElementTree.Element, case: tuple[str, str], said: tuple[Verdict, Reason], text: str
) -> None:
    names = [_NOT_XML.sub("?", part) for part in case]
    node = ElementTree.SubElement(group, "testcase", classname=f"perf.{names[1]}", name="::".join(names))
    verdict, reason = said
    if verdict in _ELEMENTS:
        element, kind = _ELEMENTS[verdict]
        ElementTree.SubElement(node, element, type=kind, message=f"{verdict.value} {reason.value}").text = text


def _together(found: Geomean) -> str:
    return f"{signed(found.effect)} (90 %: {signed(found.low)} to {signed(found.high)}), {found.points} points"
