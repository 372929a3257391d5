"""What equal arms showed in an A/A calibration, and the floor that follows: no smaller difference is a regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri, stdtrit

from .effects import Estimate, estimate
from .limits import Limits
from .pairs import Floats

_SURE = 0.999
"""Two-sided, that equal arms differ in the mean; else that is not believed."""
_NORMAL_SURE = 2.0
"""In standard errors of a correlation that is none."""


@dataclass(frozen=True, slots=True)
class EqualArms:
    """Of a metric; numbers, or arrays with an entry for each point.

    sd         standard deviation between launches of log(head / base), or of the share of the step
    launches   whole launches behind it
    offset     by how much equal arms differ in the mean, 0 where that is not sure: then one arm has a better place
    memory     >= 1: so much more the mean of launches in a row varies than that of launches on their own
    """

    sd: Floats | float
    launches: Floats | float
    offset: Floats | float = 0.0
    memory: Floats | float = 1.0

    def floor(self, launches: Floats | float, limits: Limits, seen: Estimate | None = None) -> Floats:
        """Least effect (log) that is called a regression: the user's, or three standard errors of A/A, and the offset.

        A run that is noisier than its calibration by an F test brings the floor of its own spread.
        """
        sd = np.asarray(self.sd, dtype=np.float64)
        if seen is not None:
            df = np.where(seen.launches > 1, seen.launches - 1, 1)
            ratio = fdtri(df, np.asarray(self.launches) - 1, 1 - limits.noise_alpha)
            sd = np.where(seen.spread**2 > ratio * sd**2, seen.spread, sd)
        error = sd * self.memory / np.sqrt(launches)
        return np.asarray(np.maximum(np.log1p(limits.min_effect), 3 * error) + np.abs(self.offset))


def as_equal_arms(known: EqualArms | Floats | float, limits: Limits) -> EqualArms:
    """A bare standard deviation stands for a calibration of the least number of launches."""
    return known if isinstance(known, EqualArms) else EqualArms(known, limits.calibration_launches)


def equal_arms(effects: Floats) -> EqualArms:
    """What `effects` [..., launches] of equal arms, in their order, say. Lost launches are not-a-number."""
    found = estimate(effects)
    count = found.launches
    sure = np.abs(found.mean) > stdtrit(np.maximum(count - 1, 1), (1 + _SURE) / 2) * found.error
    return EqualArms(found.spread, count, np.where(sure, found.mean, 0.0), _memory(effects, found))


def _memory(effects: Floats, found: Estimate) -> Floats:
    """sqrt((1 + r) / (1 - r)) by the correlation r of neighbours, freed of its bias -(1 + 3 r) / n; 1 if not sure."""
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = _neighbours(effects, found)
        sure = seen + 1 / found.launches > _NORMAL_SURE / np.sqrt(found.launches)
        true = np.minimum((found.launches * seen + 1) / (found.launches - 3), 0.9)
        return np.where(sure, np.sqrt((1 + true) / (1 - true)), 1.0)


def _neighbours(effects: Floats, found: Estimate) -> Floats:
    """[...] the correlation of neighbours in `effects` [..., launches]; not-a-number where nothing varies."""
    apart = np.where(np.isfinite(effects), effects - found.mean[..., None], 0.0)
    return np.asarray((apart[..., 1:] * apart[..., :-1]).sum(-1) / (apart**2).sum(-1))


def may_remember(effects: Floats) -> bool:
    """Whether launches in a row resemble each other, in the mean over points [points, launches], by more than a
    standard error: twenty do not always show an offset that lasts over several, forty mostly do.
    """
    found = estimate(effects)
    with np.errstate(divide="ignore", invalid="ignore"):
        surplus = (_neighbours(effects, found) + 1 / found.launches) * np.sqrt(found.launches)
    known = surplus[np.isfinite(surplus)]
    return bool(len(known) and known.mean() > 1.0)
