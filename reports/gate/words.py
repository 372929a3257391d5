"""The gate's verdicts in words: one sentence a point, and the line that a command ends with."""

from __future__ import annotations

from ...analysis.gate.matching import ALL
from ...analysis.gate.point import PointVerdict
from ...analysis.gate.suite import SuiteVerdict
from ..formatting import percent


def signed(fraction: float | None) -> str:
    """0.05 as "+5 %"; a dash where nothing is known."""
    if fraction is None:
        return "–"  # noqa: RUF001 - the dash of every table here
    return f"{'-' if fraction < 0 else '+'}{percent(abs(fraction))}"


def name_of(point: PointVerdict) -> str:
    """The point and its metric; ALL leaves itself out."""
    return "::".join(part for part in (point.point, point.metric) if part != ALL) or "all"


def sentence(point: PointVerdict) -> str:
    """Reason, effect with its interval, and what the effect rests on."""
    parts = [point.reason.value]
    if point.figures is not None and point.figures.effect is not None:
        figures = point.figures
        interval = "" if figures.low is None else f" (90 %: {signed(figures.low)} to {signed(figures.high)})"
        parts.append(f"{signed(figures.effect)}{interval}, n = {figures.launches}")
    if point.detail:
        parts.append(point.detail)
    return "; ".join(parts)


def last_line(suite: SuiteVerdict) -> str:
    """The verdict, its reasons, and the first points behind it."""
    behind = [point for point in suite.points if point.verdict is suite.verdict]
    reasons = ", ".join(reason.value for reason in suite.reasons)
    shown = "; ".join(f"{name_of(point)}: {sentence(point)}" for point in behind[:3])
    more = f"; {len(behind) - 3} more" if len(behind) > 3 else ""
    return f"{suite.verdict.value} ({reasons}): {shown}{more}"
