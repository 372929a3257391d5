"""Fewer points for the eye, none of the extremes lost."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

LIMIT = 1_500
"""Points of one chart at most: more than a screen has columns, and 1e5 steps stay a small page."""


def keep_extremes(values: npt.ArrayLike, limit: int = LIMIT) -> npt.NDArray[np.int64]:
    """Positions to keep of `values`, ascending: in each of limit/2 equal stretches its minimum and its maximum.

    With `limit` values or fewer, all of them. NaN counts as missing; a stretch of nothing but NaN keeps its first.
    The global minimum and maximum are always among the kept.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) <= limit:
        return np.arange(len(numbers), dtype=np.int64)
    edges = np.linspace(0, len(numbers), max(1, limit // 2) + 1).astype(np.int64)
    kept: list[int] = []
    for start, end in itertools.pairwise(edges.tolist()):
        part = numbers[start:end]
        low = int(np.argmin(np.where(np.isnan(part), np.inf, part)))
        high = int(np.argmax(np.where(np.isnan(part), -np.inf, part)))
        kept += [start + low, start + high]
    return np.unique(np.array(kept, dtype=np.int64))
