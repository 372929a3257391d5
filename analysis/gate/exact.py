"""Metrics that are counted, not timed: compared exactly, without a floor, less is better.

    pageable_bytes, hazards, syncs, launches, h2d_count    integers of a measured stretch of steps
    padding_share                                          a fraction: padded tokens / tokens
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from .point import PointVerdict
from .verdict import Reason, Verdict

EXACT = ("pageable_bytes", "hazards", "syncs", "launches", "h2d_count", "padding_share")

Count = int | float | Fraction
Arms = Mapping[str, Sequence[Count | None]]


def judge_exact(point: str, metric: str, arms: Arms) -> PointVerdict:
    """The verdict on `arms`: "base" and "head", each with one value per launch; None where a launch has none.

    Zero is a count like any other; a missing one is not zero. Values that change from launch to launch decide only
    where the arms' ranges do not touch.
    """
    known: dict[str, list[Count]] = {}
    for arm in ("base", "head"):
        values = arms.get(arm, ())
        known[arm] = [value for value in values if value is not None]
        if not values or len(known[arm]) < len(values):
            return PointVerdict(point, metric, Verdict.ERROR, Reason.NOT_MEASURED, detail=arm)
        if not all(math.isfinite(value) for value in known[arm]):
            return PointVerdict(point, metric, Verdict.ERROR, Reason.NOT_FINITE, detail=arm)
        if min(known[arm]) < 0:
            return PointVerdict(point, metric, Verdict.ERROR, Reason.NOT_POSITIVE, detail=arm)
    verdict, reason = _compared(known["base"], known["head"])
    return PointVerdict(point, metric, verdict, reason, stage=1, detail=_span(known["base"], known["head"]))


def _compared(base: list[Count], head: list[Count]) -> tuple[Verdict, Reason]:
    if min(head) > max(base):
        return Verdict.FAIL, Reason.MORE
    if max(head) < min(base):
        return Verdict.PASS, Reason.FEWER
    if min(base) == max(base) == min(head) == max(head):
        return Verdict.PASS, Reason.EQUAL
    return Verdict.INCONCLUSIVE, Reason.COUNT_VARIES


def _span(base: list[Count], head: list[Count]) -> str:
    return f"base {_range(base)}, head {_range(head)}"


def _range(values: list[Count]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
