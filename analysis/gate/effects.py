"""From pairs to one figure per launch, and from launches to an estimate with bounds.

Steps and blocks of a launch are not independent samples: they share its offset (addresses, placement, clocks). What
was repeated is the launch, so launches are what Student's bounds count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from .pairs import Flags, Floats

LEAST_SHARE = 0.5
"""Of a launch's pairs: with fewer left it says nothing."""


def launch_effects(differences: Floats, head_first: Flags) -> Floats:
    """[...] the median over pairs of `differences` [..., pairs]; not-a-number where too few pairs are left.

    Where drops left more pairs of one order than of the other, the mean of the two orders' medians: else a drift
    within the launch would move the median towards the order that is left.
    """
    kept = np.isfinite(differences)
    first, second = kept & head_first, kept & ~head_first
    num_first, num_second = first.sum(-1), second.sum(-1)
    both = _median(differences, kept)
    apart = (_median(differences, first) + _median(differences, second)) / 2
    values = np.where(num_first == num_second, both, apart)
    enough = kept.sum(-1) >= max(2, np.ceil(LEAST_SHARE * differences.shape[-1]))
    return np.where(enough, values, np.nan)


def order_effects(differences: Floats, head_first: Flags) -> Floats:
    """[...] half of what a pair says more when head comes second: what the order alone is worth in each launch."""
    kept = np.isfinite(differences)
    return (_median(differences, kept & ~head_first) - _median(differences, kept & head_first)) / 2


def _median(values: Floats, where: Flags) -> Floats:
    """As np.nanmedian, which takes a millisecond for a row; not-a-number for launches without a pair."""
    ordered = np.sort(np.where(where, values, np.nan), axis=-1)  # what is no number comes last
    if ordered.shape[-1] == 0:
        return np.full(ordered.shape[:-1], np.nan)
    count = np.isfinite(ordered).sum(-1)
    middle = np.stack([np.maximum(count - 1, 0) // 2, np.minimum(count // 2, ordered.shape[-1] - 1)], axis=-1)
    return np.asarray(np.take_along_axis(ordered, middle, axis=-1).mean(-1))


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean over launches, its standard error and the launches behind it; arrays of one shape, or numbers.

    With fewer than two launches the error is not-a-number, and so is each bound: no comparison with it holds.
    """

    mean: Floats
    error: Floats
    launches: Floats

    def bound(self, confidence: float) -> Floats:
        """One-sided Student bound: `confidence` 0.95 gives the upper one, 0.05 the lower."""
        usable = self.launches > 1
        quantile = stdtrit(np.where(usable, self.launches - 1, 1), confidence)
        return np.asarray(np.where(usable, self.mean + quantile * self.error, np.nan))

    @property
    def p_slower(self) -> Floats:
        """One-sided p of "not slower"; not-a-number where nothing varies or too little is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            score = self.mean / self.error
        return np.asarray(stdtr(np.where(self.launches > 1, self.launches - 1, np.nan), -score))

    @property
    def spread(self) -> Floats:
        """Standard deviation between launches."""
        return np.asarray(self.error * np.sqrt(self.launches))


def estimate(effects: Floats) -> Estimate:
    """The estimate over the last axis of `effects` [..., launches]; lost launches are not-a-number."""
    kept = np.isfinite(effects)
    count = kept.sum(-1).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(kept, effects, 0.0).sum(-1) / count
        squares = np.where(kept, (effects - mean[..., None]) ** 2, 0.0).sum(-1)
        error = np.sqrt(squares / (count - 1) / count)
    return Estimate(np.asarray(mean), np.where(count > 1, error, np.nan), count)
