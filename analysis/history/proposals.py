"""Places where a series may change: the best segmentation into constant pieces, by ruptures' dynamic programme.

Which package, and why: docs/decisions/0003-change-points-by-ruptures.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import UsageError
from .split import Floats

Propose = Callable[[Floats, int], tuple[int, ...]]
"""(values [n], least length of a piece) → first indices of the pieces, without 0, ascending."""

_PENALTY = 6.0
"""Price of a piece in units of the noise's variance: low, so that too many are proposed rather than too few."""


def ruptures_proposals() -> Propose:
    """The proposer that the extra `history` brings. UsageError without it."""
    try:
        from ruptures import KernelCPD
    except ModuleNotFoundError:
        raise UsageError("perf history: ruptures is not installed; pip install 'stepscope[history]'") from None

    def propose(values: Floats, least: int) -> tuple[int, ...]:
        if len(values) < 2 * least:
            return ()
        noise = noise_of(values)
        if noise <= 0:
            return ()
        scaled = ((values - np.median(values)) / noise).reshape(-1, 1)
        found = KernelCPD(kernel="linear", min_size=least).fit(scaled).predict(pen=_PENALTY)
        return tuple(int(place) for place in found if place < len(values))

    return propose


def noise_of(values: Floats) -> float:
    """Standard deviation from neighbour to neighbour, robust, so that steps do not count as noise.

    From the median absolute difference (1.4826 for a normal one, two results in each difference); where most neighbours
    are equal, from the mean square.
    """
    steps = np.diff(values)
    robust = 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / float(np.sqrt(2))
    return robust if robust > 0 else float(np.sqrt((steps**2).mean() / 2))
