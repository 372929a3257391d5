"""The gate's verdicts in words: one sentence a point, and the line that a command ends with."""

from __future__ import annotations

from ...analysis.gate.matching import ALL, ONLY_POINT
from ...analysis.gate.point import Figures, PointVerdict
from ...analysis.gate.suite import SuiteVerdict
from ...analysis.gate.verdict import Verdict
from ..formatting import counted, percent
from .characters import shortened
from .reasons import MEANINGS

_NAME_CHARACTERS = 80


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
    return "; ".join(part for part in (point.reason.value, _change(point.figures), point.detail) if part)


def _change(figures: Figures | None) -> str:
    if figures is None or figures.effect is None:
        return ""
    interval = "" if figures.low is None else f" (90 %: {signed(figures.low)} to {signed(figures.high)})"
    return f"{signed(figures.effect)}{interval}, n = {figures.launches}"


def last_line(suite: SuiteVerdict) -> str:
    """The verdict, its reasons, and what a log has to say of them."""
    reasons = ", ".join(reason.value for reason in suite.reasons)
    told = _passed if suite.verdict is Verdict.PASS else _behind
    return f"{suite.verdict.value} ({reasons}): {told(suite)}"


def _passed(suite: SuiteVerdict) -> str:
    """How much was judged, and what came nearest to a regression; every other figure stands in the outputs."""
    points = len({point.point for point in suite.points})
    judged = f"{counted(len(suite.points), 'metric')} of {counted(points, 'point')}"
    changed = [(one.figures.effect, one) for one in suite.points if one.figures and one.figures.effect is not None]
    if not changed:
        return judged
    _, most = max(changed, key=lambda pair: pair[0])
    return f"{judged}; highest {shortened(name_of(most), _NAME_CHARACTERS)}: {_change(most.figures)}"


def _behind(suite: SuiteVerdict) -> str:
    """The first points behind the verdict, and what the first reason means."""
    behind = [point for point in suite.points if point.verdict is suite.verdict]
    shown = "; ".join(f"{name_of(point)}: {sentence(point)}" for point in behind[:3])
    more = f"; {len(behind) - 3} more" if len(behind) > 3 else ""
    meaning = f" ({suite.reasons[0].value}: {MEANINGS[suite.reasons[0]]})" if suite.reasons else ""
    return f"{shown}{more}{meaning}"
