"""Ranges of one thread inside one another: depth and parent of each, without a loop over them."""

from __future__ import annotations

import numpy as np

from .arrays import LongArray

_DEEP = 512


def in_order(start: LongArray, end: LongArray) -> LongArray:
    """Rows sorted so that whoever contains another comes first."""
    return np.lexsort((-end, start)).astype(np.int64)


def depths(start: LongArray, end: LongArray) -> LongArray:
    """How many ranges are open around each; rows in the order of `in_order`. Exact where ranges nest.

    start 0 end 100, 10-40, 20-30, 50-60  →  0, 1, 2, 1
    """
    ended = np.searchsorted(np.sort(end), start, side="right")
    opened = np.arange(len(start), dtype=np.int64)
    return np.asarray(np.maximum(opened - np.minimum(ended, opened), 0), dtype=np.int64)


def parents(start: LongArray, end: LongArray, depth: LongArray) -> LongArray:
    """Row that directly contains each row (rows in the order of `in_order`), -1 for the outermost."""
    deepest = int(depth.max()) if len(depth) else 0
    if deepest > _DEEP:  # not nesting but overlapping: level by level would take rows times levels
        return _parents_one_by_one(start, end)
    found = np.full(len(depth), -1, dtype=np.int64)
    rows = np.arange(len(depth), dtype=np.int64)
    for level in range(1, deepest + 1):
        above = np.maximum.accumulate(np.where(depth == level - 1, rows, -1))
        here = depth == level
        found[here] = above[here]
    return found


def _parents_one_by_one(start: LongArray, end: LongArray) -> LongArray:
    found: list[int] = []
    opened: list[int] = []
    ends = end.tolist()
    for row, begin in enumerate(start.tolist()):
        while opened and ends[opened[-1]] <= begin:
            opened.pop()
        found.append(opened[-1] if opened else -1)
        opened.append(row)
    return np.array(found, dtype=np.int64)


def _until_crossed(start: LongArray, end: LongArray) -> LongArray:
    """Ends of the ranges, in the order of `in_order`, so that they nest: one that another crosses ends where that
    begins. What it had left belongs to the other one, which began later and outlasts it."""
    found = end.tolist()
    opened: list[int] = []
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while opened and found[opened[-1]] <= begin:
            opened.pop()
        while opened and found[opened[-1]] < finish:
            found[opened.pop()] = begin
        opened.append(row)
    return np.array(found, dtype=np.int64)


def segments(start: LongArray, end: LongArray) -> tuple[LongArray, LongArray, LongArray]:
    """Disjoint pieces of time with the innermost range of each: (begin, end, row), rows as they came. Where ranges
    cross (start/end ranges of NVTX may), the one that began later counts for as long as it lasts.

    start 0 end 100, 10-40  →  0-10 row 0, 10-40 row 1, 40-100 row 0
    start 0 end 10, 5-15    →  0-5 row 0, 5-15 row 1
    """
    kept = np.flatnonzero(end > start)
    original = kept[in_order(start[kept], end[kept])]
    start, end = start[original], end[original]
    if not len(start):
        return start, end, original
    depth = depths(start, end)
    parent = parents(start, end, depth)
    if (end > end[parent])[parent >= 0].any():
        end = _until_crossed(start, end)
        depth = depths(start, end)
        parent = parents(start, end, depth)
    rows = np.arange(len(start), dtype=np.int64)
    # borders in time: at equal times ends before starts, inner ends before outer ones, starts in row order
    closing = np.lexsort((-depth, end))
    ends = end[closing]
    place_of_end = rows + np.searchsorted(start, ends, side="left")
    place_of_start = rows + np.searchsorted(ends, start, side="right")
    times, inner = np.empty(2 * len(rows), dtype=np.int64), np.empty(2 * len(rows), dtype=np.int64)
    times[place_of_end], times[place_of_start] = ends, start
    inner[place_of_end], inner[place_of_start] = parent[closing], rows
    solid = np.flatnonzero((times[1:] > times[:-1]) & (inner[:-1] >= 0))
    return times[solid], times[solid + 1], original[inner[solid]]
