"""Workflow commands of GitHub Actions: lines on stdout that become annotations of the run.

GitHub shows ten of a kind a step: one for the verdict, then the worst nine, the last of them naming how many are left.
"""

from __future__ import annotations

from ...analysis.gate.point import PointVerdict
from ...analysis.gate.result import GateResult
from ...analysis.gate.verdict import Verdict
from .characters import readable, shortened
from .order import counts, worst_first
from .words import name_of, sentence

PER_KIND = 10
_KINDS = {
    Verdict.FAIL: "error", Verdict.ERROR: "error", Verdict.INCOMPARABLE: "warning", Verdict.INCONCLUSIVE: "warning",
    Verdict.PASS: "notice",
}  # fmt: skip
_NAME_MAX, _TEXT_MAX = 120, 1000


def render_annotations(result: GateResult) -> str:
    """The commands, one a line; ends with a newline."""
    suite = result.suite
    order = worst_first(suite)
    lines = [command(_KINDS[suite.verdict], f"perf gate: {suite.verdict.value}",
                     f"{counts(suite)} ({', '.join(reason.value for reason in suite.reasons)})")]  # fmt: skip
    for kind in ("error", "warning"):
        lines += _of_kind(kind, [point for point in order if _KINDS[point.verdict] == kind],
                          PER_KIND - (kind == _KINDS[suite.verdict]))  # fmt: skip
    return "\n".join(lines) + "\n"


def _of_kind(kind: str, points: list[PointVerdict], room: int) -> list[str]:
    shown = points if len(points) <= room else points[: room - 1]
    lines = [command(kind, f"{point.verdict.value} {shortened(name_of(point), _NAME_MAX)}", sentence(point))
             for point in shown]  # fmt: skip
    left = len(points) - len(shown)
    return [*lines, command(kind, "perf gate", f"{left} more of this kind, see the job summary")] if left else lines


def command(kind: str, title: str, message: str) -> str:
    """One workflow command; what would end it, or begin another, is escaped as the runner undoes it."""
    text = shortened(readable(message), _TEXT_MAX)
    return f"::{kind} title={_property(readable(title))}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
