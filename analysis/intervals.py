"""Algebra on sets of half-open intervals [start, end) of integer nanoseconds, and overlap under an uncertain offset.

An interval set is an int64 array of shape [n, 2]; one interval may also be given as shape [2]. Empty and reversed
intervals hold no time and are dropped. Every function but `pairwise_overlap` and its bounds takes sets in any order,
overlapping or not, and returns merged sets (sorted, disjoint, not touching).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .tables import BoolArray, LongArray

Intervals = LongArray


def intervals(values: npt.ArrayLike) -> Intervals:
    """`values` as an [n, 2] int64 array."""
    return np.asarray(values, dtype=np.int64).reshape(-1, 2)


def merge(values: npt.ArrayLike) -> Intervals:
    """The union of the intervals as a sorted set; touching intervals become one."""
    found = intervals(values)
    solid = found[:, 1] > found[:, 0]
    if not solid.all():
        found = found[solid]
    if not len(found):
        return found
    if (found[1:, 0] < found[:-1, 0]).any():  # captures are in order nearly always, merged sets are always
        found = found[np.argsort(found[:, 0], kind="stable")]
    reach = np.maximum.accumulate(found[:, 1])
    heads = np.flatnonzero(np.concatenate(([True], found[1:, 0] > reach[:-1])))
    tails = np.concatenate((heads[1:] - 1, [len(found) - 1]))
    return np.stack((found[heads, 0], reach[tails]), axis=1)


def union(a: npt.ArrayLike, b: npt.ArrayLike) -> Intervals:
    """Time that lies in a or in b."""
    return merge(np.concatenate((intervals(a), intervals(b))))


def length(values: npt.ArrayLike) -> int:
    """Total time of the union, in ns."""
    merged = merge(values)
    return int(np.sum(merged[:, 1] - merged[:, 0]))


def intersect(a: npt.ArrayLike, b: npt.ArrayLike) -> Intervals:
    """Time that lies in both a and b. O((n + m) log)."""
    left, right = merge(a), merge(b)
    if not len(left) or not len(right):
        return intervals([])
    first = np.searchsorted(right[:, 1], left[:, 0], side="right")
    stop = np.searchsorted(right[:, 0], left[:, 1], side="left")
    counts = np.maximum(stop - first, 0)
    rows = np.repeat(np.arange(len(left)), counts)
    columns = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    starts = np.maximum(left[rows, 0], right[columns, 0])
    return np.stack((starts, np.minimum(left[rows, 1], right[columns, 1])), axis=1)


def gaps(values: npt.ArrayLike, within: tuple[int, int]) -> Intervals:
    """Time of the window `within` that no interval covers."""
    start, end = within
    covered = intersect(values, [start, end])
    edges = np.concatenate(([start], covered.ravel(), [end])).astype(np.int64)
    return merge(edges)


def subtract(a: npt.ArrayLike, b: npt.ArrayLike) -> Intervals:
    """Time of a that is not in b."""
    left = merge(a)
    if not len(left):
        return left
    return intersect(left, gaps(b, (int(left[0, 0]), int(left[-1, 1]))))


def overlap(a: npt.ArrayLike, b: npt.ArrayLike) -> int:
    """|a ∩ b| in ns."""
    return length(intersect(a, b))


def pairwise_overlap(c: npt.ArrayLike, b: npt.ArrayLike) -> LongArray:
    """|c_i ∩ b_i| row by row: c and b are [n, 2], one interval a row."""
    left, right = intervals(c), intervals(b)
    shared = np.minimum(left[:, 1], right[:, 1]) - np.maximum(left[:, 0], right[:, 0])
    return np.asarray(np.maximum(shared, 0), dtype=np.int64)


def pairwise_overlap_bounds(
    c: npt.ArrayLike, b: npt.ArrayLike, err_ns: npt.ArrayLike
) -> tuple[LongArray, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Overlap of c_i with b_i, and its exact extremes over all shifts of c_i by at most its error: (value, low, high),
    each [n]. `err_ns` [n] or a scalar, fractions allowed.

    |c + s ∩ b| is piecewise linear in the shift s and bends only where a border of c meets a border of b, so its
    extremes lie at 0, at ± err or at a bend; looking at the ends alone misses them (c = b = [100, 120], err 5.5: both
    ends give 14.5, the maximum is 20).
    """
    left, right = intervals(c), intervals(b)
    err = np.broadcast_to(np.asarray(err_ns, dtype=np.float64), len(left))
    value = pairwise_overlap(left, right)
    low, high = value.astype(np.float64), value.astype(np.float64)
    for found, inside in _candidates(left, right, err):
        low = np.where(inside, np.minimum(low, found), low)
        high = np.where(inside, np.maximum(high, found), high)
    return value, low, high


def _candidates(
    left: Intervals, right: Intervals, err: npt.NDArray[np.float64]
) -> list[tuple[npt.NDArray[np.float64], BoolArray]]:
    """(overlap, whether the shift is allowed) at the four bends and at both ends."""
    found: list[tuple[npt.NDArray[np.float64], BoolArray]] = []
    for border in (0, 1):
        for other in (0, 1):
            shift = right[:, other] - left[:, border]
            at_bend = pairwise_overlap(left + shift[:, None], right).astype(np.float64)
            found.append((at_bend, np.asarray(np.abs(shift) <= err)))
    for end in (-err, err):
        below = np.floor(end).astype(np.int64)
        at_below = pairwise_overlap(left + below[:, None], right)
        step = pairwise_overlap(left + below[:, None] + 1, right) - at_below
        found.append((np.asarray(at_below + (end - below) * step), np.ones(len(err), dtype=np.bool_)))
    return found
