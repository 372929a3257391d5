"""Before running: the least slowdown that the gate finds, and what finding it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import nctdtr, stdtrit

from .equal_arms import EqualArms, as_equal_arms
from .limits import Limits

POWER = 0.95
"""How surely the gate flags the slowdown that a plan calls detectable."""


@dataclass(frozen=True, slots=True)
class GatePlan:
    """Effects are fractions.

    least_effect    the floor: nothing smaller is called a regression
    detectable      slowdown that one stage flags with probability `power`
    first_stage_s   time of stage 1 for all points; stage 2 takes as much for each point that needs it
    """

    least_effect: float
    detectable: float
    power: float
    first_stage_s: float
    most_s: float


def plan(
    calibrated: EqualArms | float, points: int, limits: Limits, *, block_s: float = 1.2, launch_s: float = 10.0
) -> GatePlan:
    """The plan on a machine whose equal arms show `calibrated` (a number: their sd between launches, log).

    Two arms are resident at once and start together; all points of a launch share its start.
    """
    equal = as_equal_arms(calibrated, limits)
    least = float(equal.floor(limits.launches, limits))
    stage = limits.launches * (launch_s + points * limits.pairs * 2 * block_s)
    detectable = float(np.expm1(_detectable(equal, least, limits)))
    return GatePlan(float(np.expm1(least)), detectable, POWER, round(stage, 3), round(2 * stage, 3))


def _detectable(equal: EqualArms, least: float, limits: Limits) -> float:
    """Least effect flagged with probability POWER: both of the flag's conditions must hold, by the weaker one.

    The mean passes the floor when it is a normal quantile above it; the t bound passes zero by a noncentral t.
    """
    error = float(equal.sd * equal.memory / np.sqrt(limits.launches))
    df = limits.launches - 1
    offset = float(np.abs(equal.offset))
    critical = stdtrit(df, limits.confidence)
    over_floor = least + float(-stdtrit(1e6, 1 - POWER)) * error
    effects = np.linspace(0, 12, 1201) * error  # in standard errors; the bound needs fewer than that
    found = 1 - nctdtr(df, effects / error if error > 0 else effects, critical)
    over_zero = float(effects[np.argmax(found >= POWER)]) if error > 0 else 0.0
    return float(max(over_floor, over_zero + offset))
