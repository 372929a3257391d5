"""The order in which verdicts are told: the worst first, and within a verdict the largest effect."""

from __future__ import annotations

from collections import Counter

from ...analysis.gate.point import PointVerdict
from ...analysis.gate.suite import SuiteVerdict
from ...analysis.gate.verdict import Verdict

_PLACE = {verdict: place for place, verdict in enumerate(Verdict)}


def worst_first(suite: SuiteVerdict) -> list[PointVerdict]:
    """All verdicts of `suite`."""
    return sorted(suite.points, key=lambda point: (_PLACE[point.verdict], -_effect(point)))


def counts(suite: SuiteVerdict) -> str:
    """"1 FAIL, 0 ERROR, ..., 22 PASS"."""
    found = Counter(point.verdict for point in suite.points)
    return ", ".join(f"{found[verdict]} {verdict.value}" for verdict in Verdict)


def _effect(point: PointVerdict) -> float:
    return 0.0 if point.figures is None or point.figures.effect is None else point.figures.effect
