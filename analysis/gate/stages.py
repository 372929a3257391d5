"""The two stages: flag on the first launches, confirm on fresh ones. Arrays of any shape, one entry per point.

Looking again at the same data after each launch would alarm far more often than a fresh look.
"""

from __future__ import annotations

import numpy as np
from scipy.special import fdtri

from .effects import Estimate, estimate
from .limits import Limits
from .pairs import Flags, Floats


def floor(
    calibrated_sd: Floats | float, launches: Floats | float, limits: Limits, seen: Estimate | None = None
) -> Floats:
    """Least effect (log) that is called a regression: the user's, or three standard errors of A/A on this machine.

    A run that is noisier than its calibration by an F test brings the floor of its own spread.
    """
    sd = np.asarray(calibrated_sd, dtype=np.float64)
    if seen is not None:
        df = np.where(seen.launches > 1, seen.launches - 1, 1)
        ratio = fdtri(df, limits.calibration_launches - 1, 1 - limits.noise_alpha)
        noisier = seen.spread**2 > ratio * sd**2
        sd = np.where(noisier, seen.spread, sd)
    return np.maximum(np.log1p(limits.min_effect), 3 * sd / np.sqrt(launches))


def flagged(found: Estimate, least: Floats, limits: Limits) -> Flags:
    """Slower, surely and by enough."""
    return np.asarray((found.bound(1 - limits.confidence) > 0) & (found.mean >= least))


def passed(found: Estimate, limits: Limits) -> Flags:
    """Surely not slower by what must be detected."""
    return np.asarray(found.bound(limits.confidence) < np.log1p(limits.must_detect))


def first_stage(effects: Floats, calibrated_sd: Floats | float, limits: Limits) -> tuple[Flags, Flags]:
    """(flag, pass) of `effects` [..., launches]; where neither holds, fresh launches decide."""
    found = estimate(effects)
    flag = flagged(found, floor(calibrated_sd, found.launches, limits, found), limits)
    return flag, ~flag & passed(found, limits)


def second_stage(
    effects: Floats, fresh: Floats, calibrated_sd: Floats | float, limits: Limits
) -> tuple[Flags, Flags, Flags]:
    """(flagged again by the fresh launches alone, sure on all of them, pass) of points that stage 1 did not pass.

    A point that only the fresh launches flag was not confirmed by anything: all launches together decide it.
    """
    before, _ = first_stage(effects, calibrated_sd, limits)
    again = before & first_stage(fresh, calibrated_sd, limits)[0]
    pooled = estimate(np.concatenate([effects, fresh], axis=-1))
    least = floor(calibrated_sd, pooled.launches, limits, pooled)
    sure = (pooled.bound(1 - limits.confirm_confidence) > 0) & (pooled.mean >= least)
    together = np.asarray(~again & sure)
    return again, together, np.asarray(~again & ~together & passed(pooled, limits))
