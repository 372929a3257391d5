"""All points together: a slowdown that no single point shows, and what their number does to significance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .effects import Estimate, estimate
from .limits import Limits
from .pairs import Flags, Floats
from .point import PointVerdict
from .verdict import Reason, Verdict, worst


def geomean(effects: Floats) -> Estimate:
    """The geometric mean over points of head / base (log), by launch: effects [..., points, launches].

    A launch that lost a point is left out: else the points in it would change from launch to launch.
    """
    return estimate(np.asarray(effects.mean(axis=-2)))


def geomean_suspect(effects: Floats, limits: Limits, offset: Floats | float = 0.0) -> Flags:
    """All points together look slower by `geomean_effect`: every point is worth fresh launches.

    offset   (log) that equal arms show anyway, in the mean of the points' sizes
    """
    found = geomean(effects)
    least = np.log1p(limits.geomean_effect) + offset
    return np.asarray((found.bound(1 - limits.confidence) > offset) & (found.mean >= least))


def geomean_confirmed(effects: Floats, fresh: Floats, limits: Limits, offset: Floats | float = 0.0) -> Flags:
    """All points together are surely slower by more than `geomean_effect`, on the fresh launches or on all of them."""
    pooled = np.concatenate([effects, fresh], axis=-1)
    low = [geomean(launches).bound(1 - limits.confirm_confidence) for launches in (fresh, pooled)]
    return np.asarray(np.fmax(*low) > np.log1p(limits.geomean_effect) + offset)


def holm(p_values: Floats) -> Floats:
    """Holm's adjusted p (1979) of a family [points]; not-a-number stays, and does not count as a member."""
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(np.isfinite(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    scaled = p_values[order] * (len(order) - np.arange(len(order)))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


@dataclass(frozen=True, slots=True)
class SuiteVerdict:
    """The word for all points. `holm_p`: (point, metric) -> adjusted p. Geometric means: metric -> fraction."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    points: tuple[PointVerdict, ...]
    holm_p: Mapping[tuple[str, str], float]
    geomeans: Mapping[str, Geomean]

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        return self.verdict.exit_code

    def confirm(self) -> tuple[tuple[str, str], ...]:
        """Which (point, metric) need fresh launches; all points of a metric whose geometric mean looks slower."""
        suspects = {metric for metric, found in self.geomeans.items() if found.reason is Reason.NEEDS_CONFIRMATION}
        return tuple(
            (point.point, point.metric) for point in self.points
            if point.reason is Reason.NEEDS_CONFIRMATION or (point.metric in suspects and point.effects)
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Geomean:
    """All points of a metric together: fraction slower, its two-sided 90 % interval, and what follows."""

    effect: float
    low: float
    high: float
    points: int
    verdict: Verdict
    reason: Reason


def judge_suite(points: Sequence[PointVerdict], limits: Limits) -> SuiteVerdict:
    """The worst of the points' verdicts and of the geometric means'; ERROR of no points."""
    geomeans = {}
    for metric in dict.fromkeys(point.metric for point in points if point.effects):
        found = _geomean([point for point in points if point.metric == metric and point.effects], limits)
        if found is not None:
            geomeans[metric] = found
    verdict = worst([*(point.verdict for point in points), *(found.verdict for found in geomeans.values())])
    said = [(point.verdict, point.reason) for point in points]
    said += [(found.verdict, found.reason) for found in geomeans.values()]
    reasons = tuple(dict.fromkeys(reason for one, reason in said if one is verdict)) or (Reason.NOTHING_MEASURED,)
    return SuiteVerdict(verdict, reasons, tuple(points), _holm(points), geomeans)


def _geomean(points: list[PointVerdict], limits: Limits) -> Geomean | None:
    """None with fewer than two points, or where their launches are not the same ones."""
    if len(points) < 2 or len({len(point.effects) for point in points}) > 1:
        return None
    effects = np.array([point.effects for point in points])
    whole = all(point.fresh_effects for point in points)
    fresh = np.array([point.fresh_effects for point in points]) if whole else None
    found = geomean(effects if fresh is None else np.concatenate([effects, fresh], axis=-1))
    verdict, reason = Verdict.PASS, Reason.WITHIN_LIMIT
    offset = float(np.mean([abs(point.offset) for point in points]))
    if geomean_suspect(effects, limits, offset):
        if fresh is None:
            verdict, reason = Verdict.INCONCLUSIVE, Reason.NEEDS_CONFIRMATION
        elif geomean_confirmed(effects, fresh, limits, offset):
            verdict, reason = Verdict.FAIL, Reason.ALL_POINTS_SLOWER
            lacking = next((point.uncalibrated for point in points if point.uncalibrated is not None), None)
            if lacking is not None:  # what is not calibrated cannot fail, all points together neither
                verdict, reason = Verdict.INCONCLUSIVE, lacking
    low, high = (found.bound(share) for share in (1 - limits.confidence, limits.confidence))
    effect, below, above = (float(np.expm1(value)) for value in (found.mean, low, high))
    return Geomean(effect, below, above, len(points), verdict, reason)


def _holm(points: Sequence[PointVerdict]) -> dict[tuple[str, str], float]:
    known = [point for point in points if point.figures is not None and point.figures.p_slower is not None]
    adjusted = holm(np.array([p.figures.p_slower for p in known if p.figures is not None], dtype=np.float64))
    return {(point.point, point.metric): float(p) for point, p in zip(known, adjusted, strict=True)}
