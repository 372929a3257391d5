"""One place in a stretch of results: how surely the two sides differ, and where else the step may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

Floats: TypeAlias = npt.NDArray[np.float64]

_DROP = -2 * float(np.log(1 - np.sqrt(0.95)))
"""7.35: places whose log-likelihood (twice, known variance) is within it of the best hold the step with 95 %.

On each side of the truth the excess is the maximum of a random walk with drift, P(max <= x / 2) near 1 - exp(-x / 2),
and the two are independent: (1 - exp(-x / 2))^2 = 0.95 (Siegmund, Confidence sets in change-point problems, 1988).
`tests/analysis/history` counts how often the truth is in it.
"""
_SHORT = 6
"""Results below which a side has to hold together: two spikes among three results move their median."""


@dataclass(frozen=True, slots=True)
class Split:
    """A step before index `place`: `effect` from median to median (log), `p` with the choice of the place counted in.

    earliest, latest   places that the data does not tell from `place` (95 %), both included
    """

    place: int
    earliest: int
    latest: int
    effect: float
    p: float


def best_split(values: Floats, start: int, stop: int, least: int, spread: float = 1.0) -> Split:
    """The likeliest single step within `values[start:stop]` (log), with at least `least` results on each side.

    Student's test of the two sides, times the number of places that were open (Bonferroni); 1 for a spike. `spread` as
    in `difference_p`.
    """
    stretch = values[start:stop]
    places = np.arange(least, len(stretch) - least + 1)
    gain = _gains(stretch, places)
    best = int(places[np.argmax(gain)])
    left, right = stretch[:best], stretch[best:]
    variance = _pooled(left, right)
    near = places[gain >= gain.max() - _DROP * variance]
    effect = float(np.median(right) - np.median(left))
    p = 1.0 if _spiky(left, right) else min(1.0, difference_p(left, right, spread) * len(places))
    return Split(start + best, start + int(near.min()), start + int(near.max()), effect, p)


def difference_p(left: Floats, right: Floats, spread: float = 1.0) -> float:
    """Two-sided p of equal means, one variance (Student). 1 where nothing varies and nothing differs.

    spread   by how much a mean's variance exceeds that of independent results
    """
    error = float(np.sqrt(spread * _pooled(left, right) * (1 / len(left) + 1 / len(right))))
    difference = abs(float(right.mean() - left.mean()))
    if error <= 0:
        return 0.0 if difference > 0 else 1.0
    return float(2 * stdtr(len(left) + len(right) - 2, -difference / error))


def _spiky(left: Floats, right: Floats) -> bool:
    """A short side whose results are not all on their own side of the middle: some spikes, not another level."""
    low, high = float(np.median(left)), float(np.median(right))
    middle, up = (low + high) / 2, high > low
    wrong_left = (left >= middle) if up else (left <= middle)
    wrong_right = (right <= middle) if up else (right >= middle)
    return bool((len(left) < _SHORT and wrong_left.any()) or (len(right) < _SHORT and wrong_right.any()))


def _pooled(left: Floats, right: Floats) -> float:
    squares = float(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum())
    return squares / max(1, len(left) + len(right) - 2)


def _gains(stretch: Floats, places: npt.NDArray[np.int64]) -> Floats:
    """By how much a step at each place lessens the sum of squares."""
    sums = np.cumsum(stretch)
    left, total = sums[places - 1], sums[-1]
    count = len(stretch)
    return np.asarray(left**2 / places + (total - left) ** 2 / (count - places) - total**2 / count)
