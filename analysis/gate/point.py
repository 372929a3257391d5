"""The verdict of one metric of one point: checks, stage 1, stage 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .checks import fault
from .effects import Estimate, estimate, launch_effects, order_effects
from .equal_arms import EqualArms, as_equal_arms
from .limits import Limits
from .pairs import Floats, PairBlocks
from .stages import first_stage, second_stage
from .verdict import Reason, Verdict


@dataclass(frozen=True, slots=True)
class PointData:
    """What was measured of a metric of a point: blocks of the first launches, and of those that were to confirm it."""

    point: str
    metric: str
    first: PairBlocks | None
    fresh: PairBlocks | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What the verdict rests on, effects as fractions (0.05: head takes 5 % longer); None where not known.

    low, high      two-sided 90 % interval (of both stages' launches where there are two)
    least_effect   the floor below which nothing is called a regression
    order_effect   what a pair's second place costs, in the mean over launches
    """

    effect: float | None
    low: float | None
    high: float | None
    least_effect: float | None
    p_slower: float | None
    launches: int
    dropped_pairs: int
    order_effect: float | None


@dataclass(frozen=True, slots=True)
class PointVerdict:
    """`stage` is 1 or 2, 0 where nothing could be judged. `effects`, `fresh_effects`: log, by launch, of the stages.

    uncalibrated   why there is no A/A spread to hold the effects against; None where there is, or none is needed
    offset         log, by how much equal arms differ anyway
    """

    point: str
    metric: str
    verdict: Verdict
    reason: Reason
    stage: int = 0
    detail: str = ""
    figures: Figures | None = None
    effects: tuple[float, ...] = ()
    fresh_effects: tuple[float, ...] = ()
    uncalibrated: Reason | None = None
    offset: float = 0.0


def judge_point(data: PointData, calibrated: EqualArms | float | Reason, limits: Limits) -> PointVerdict:
    """The verdict on `data`. `calibrated`: what equal arms showed (a number: their sd), or why that is not known."""
    if data.first is None:
        return PointVerdict(data.point, data.metric, Verdict.ERROR, Reason.NOT_MEASURED)
    found = fault(data.first, limits)
    if found is not None:
        return PointVerdict(data.point, data.metric, *found, detail="stage 1")
    flag, good = first_stage(_effects(data.first), _equal(calibrated, limits), limits)
    if good:
        return _told(data, [data.first], (Verdict.PASS, Reason.WITHIN_LIMIT), calibrated, limits)
    if flag and isinstance(calibrated, Reason):
        return _told(data, [data.first], (Verdict.INCONCLUSIVE, calibrated), calibrated, limits)
    if data.fresh is None:
        verdict = Verdict.INCONCLUSIVE, Reason.NEEDS_CONFIRMATION
        return _told(data, [data.first], verdict, calibrated, limits)
    found = fault(data.fresh, limits)
    if found is not None:
        return PointVerdict(data.point, data.metric, *found, detail="stage 2")
    verdict = _confirmed(_effects(data.first), _effects(data.fresh), calibrated, limits)
    return _told(data, [data.first, data.fresh], verdict, calibrated, limits)


def _confirmed(
    effects: Floats, fresh: Floats, calibrated: EqualArms | float | Reason, limits: Limits
) -> tuple[Verdict, Reason]:
    again, together, good = second_stage(effects, fresh, _equal(calibrated, limits), limits)
    if good:
        return Verdict.PASS, Reason.WITHIN_LIMIT
    if not (again or together):
        flag, _ = first_stage(effects, _equal(calibrated, limits), limits)
        return Verdict.INCONCLUSIVE, Reason.NOT_CONFIRMED if flag else Reason.TOO_WIDE
    if isinstance(calibrated, Reason):
        return Verdict.INCONCLUSIVE, calibrated
    return Verdict.FAIL, Reason.CONFIRMED_FRESH if again else Reason.CONFIRMED_POOLED


def _told(
    data: PointData, stages: list[PairBlocks], said: tuple[Verdict, Reason],
    calibrated: EqualArms | float | Reason, limits: Limits,
) -> PointVerdict:  # fmt: skip
    """The verdict with the figures of all stages that it rests on."""
    found = estimate(np.concatenate([_effects(blocks) for blocks in stages]))
    equal = _equal(calibrated, limits)
    least = equal.floor(found.launches, limits, found)
    verdict, reason = said
    sure = found.bound(limits.confidence) < -np.abs(equal.offset)
    if verdict is Verdict.PASS and sure and found.mean <= -least:
        reason = Reason.FASTER
    return PointVerdict(
        data.point, data.metric, verdict, reason, stage=len(stages), figures=_figures(found, least, stages, limits),
        effects=tuple(_effects(stages[0]).tolist()), fresh_effects=_fresh_effects(data.fresh, limits),
        uncalibrated=calibrated if isinstance(calibrated, Reason) else None, offset=float(equal.offset),
    )  # fmt: skip


def _fresh_effects(fresh: PairBlocks | None, limits: Limits) -> tuple[float, ...]:
    """Also of a point that needed none: all points together may need them."""
    return () if fresh is None or fault(fresh, limits) is not None else tuple(_effects(fresh).tolist())


def _equal(calibrated: EqualArms | float | Reason, limits: Limits) -> EqualArms:
    """Without a calibration of no spread: the run's own then makes the floor."""
    return as_equal_arms(0.0 if isinstance(calibrated, Reason) else calibrated, limits)


def _effects(blocks: PairBlocks) -> Floats:
    return launch_effects(blocks.differences, blocks.head_first)


def _figures(found: Estimate, least: Floats, stages: list[PairBlocks], limits: Limits) -> Figures:
    order = np.concatenate([order_effects(blocks.differences, blocks.head_first) for blocks in stages])
    known = order[np.isfinite(order)]
    ratio = stages[0].reference is None
    return Figures(
        effect=_fraction(found.mean, ratio), low=_fraction(found.bound(1 - limits.confidence), ratio),
        high=_fraction(found.bound(limits.confidence), ratio), least_effect=_fraction(least, ratio),
        p_slower=_number(found.p_slower), launches=int(found.launches),
        dropped_pairs=int(sum(blocks.dropped.sum() for blocks in stages)),
        order_effect=_fraction(known.mean(), ratio) if len(known) else None,
    )  # fmt: skip


def _fraction(value: Floats, of_a_ratio: bool) -> float | None:
    """A log ratio as the fraction by which it exceeds 1; a share of the reference stays."""
    return _number(np.expm1(value) if of_a_ratio else value)


def _number(value: Floats) -> float | None:
    return float(value) if np.isfinite(value) else None
