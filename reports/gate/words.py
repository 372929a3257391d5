"""The gate's verdicts in words: one sentence a point, and the line that a command ends with."""

from __future__ import annotations

from ...analysis.gate.matching import ALL, ONLY_POINT
from ...analysis.gate.point import PointVerdict
from ...analysis.gate.suite import SuiteVerdict
from ..formatting import percent
from .reasons import MEANINGS


def signed(fraction: float | None) -> str:
    """0.05 as "+5 %"; a dash where nothing is known."""
    if fraction is None:
        return "–"  # noqa: RUF001 - the dash of every table here
    return f"{'-' if fraction < 0 else '+'}{percent(abs(fraction))}"


def point_name(point: str) -> str:
    """A point for people: one without parameters has no name of its own."""
    return "the point" if point == ONLY_POINT else point


def name_of(point: PointVerdict) -> str:
    """The point and its metric; ALL leaves itself out."""
    return "::".join(part for part in (point_name(point.point), point.metric) if part != ALL) or "all"


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
    """The verdict, its reasons, the first points behind it, and what the first reason means."""
    behind = [point for point in suite.points if point.verdict is suite.verdict]
    reasons = ", ".join(reason.value for reason in suite.reasons)
    shown = "; ".join(f"{name_of(point)}: {sentence(point)}" for point in behind[:3])
    more = f"; {len(behind) - 3} more" if len(behind) > 3 else ""
    meaning = f" ({suite.reasons[0].value}: {MEANINGS[suite.reasons[0]]})" if suite.reasons else ""
    return f"{suite.verdict.value} ({reasons}): {shown}{more}{meaning}"
