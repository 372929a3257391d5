"""The arms' own values that may leave as numbers: measured, finite, and of points that did not err."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ...analysis.gate.matching import ALL
from ...analysis.gate.result import GateResult, Level, unit_of
from ...analysis.gate.verdict import Verdict

Arm = Literal["base", "head"]
_TIMES = ("ns", "us", "ms", "s")


@dataclass(frozen=True, slots=True)
class Value:
    """`level` in `unit`, which is the metric's own ("ns", "bytes", "1", "count")."""

    point: str
    metric: str
    arm: Arm
    unit: str
    level: Level


def values_of(result: GateResult, arms: Sequence[Arm] = ("head",)) -> Iterator[Value]:
    """In the order of the levels. What was not measured has no row: to a data base 0 is the best time ever."""
    broken = {(point.point, point.metric) for point in result.suite.points if point.verdict is Verdict.ERROR}
    for (point, metric), levels in result.levels.items():
        if not broken.isdisjoint({(point, metric), (point, ALL), (ALL, ALL)}):
            continue
        for arm in arms:
            level = levels.base if arm == "base" else levels.head
            unit = unit_of(metric)
            if level is not None and _measured(level, may_be_zero=unit not in _TIMES or "exposed" in metric.split("_")):
                yield Value(point, metric, arm, unit, level)


def _measured(level: Level, *, may_be_zero: bool) -> bool:
    """Counts may be 0, and so may a copy's exposed time; no other time is."""
    numbers = (level.value, level.low, level.high)
    return all(math.isfinite(number) and number >= 0 for number in numbers) and (level.value > 0 or may_be_zero)
