"""The two stages: flag on the first launches, confirm on fresh ones. Arrays of any shape, one entry per point.

Looking again at the same data after each launch would alarm far more often than a fresh look.
"""

from __future__ import annotations

import numpy as np

from .effects import Estimate, estimate
from .equal_arms import EqualArms, as_equal_arms
from .limits import Limits
from .pairs import Flags, Floats


def flagged(found: Estimate, equal: EqualArms, limits: Limits, confidence: float) -> Flags:
    """Slower, surely (more than equal arms are) and by enough."""
    sure = found.bound(1 - confidence) > np.abs(equal.offset)
    return np.asarray(sure & (found.mean >= equal.floor(found.launches, limits, found)))


def passed(found: Estimate, equal: EqualArms, limits: Limits) -> Flags:
    """Surely not slower by what must be detected."""
    return np.asarray(found.bound(limits.confidence) + np.abs(equal.offset) < np.log1p(limits.must_detect))


def first_stage(
    effects: Floats, calibrated: EqualArms | Floats | float, limits: Limits
) -> tuple[Flags, Flags]:
    """(flag, pass) of `effects` [..., launches]; where neither holds, fresh launches decide.

    calibrated   what equal arms showed; a number is their standard deviation between launches
    """
    found, equal = estimate(effects), as_equal_arms(calibrated, limits)
    flag = flagged(found, equal, limits, limits.confidence)
    return flag, ~flag & passed(found, equal, limits)


def second_stage(
    effects: Floats, fresh: Floats, calibrated: EqualArms | Floats | float, limits: Limits
) -> tuple[Flags, Flags, Flags]:
    """(flagged again by the fresh launches alone, sure on all of them, pass) of points that stage 1 did not pass.

    A point that only the fresh launches flag was not confirmed by anything: all launches together decide it.
    """
    equal = as_equal_arms(calibrated, limits)
    before, _ = first_stage(effects, equal, limits)
    again = before & first_stage(fresh, equal, limits)[0]
    pooled = estimate(np.concatenate([effects, fresh], axis=-1))
    together = np.asarray(~again & flagged(pooled, equal, limits, limits.confirm_confidence))
    return again, together, np.asarray(~again & ~together & passed(pooled, equal, limits))
