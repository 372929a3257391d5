"""How much of a window was covered by work. Exact in integers; intervals may overlap and come in any order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

LongArray = npt.NDArray[np.int64]


class Work:
    """The union of intervals [start, end), ready to be asked for windows."""

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        merged: list[tuple[int, int]] = []
        for start, end in sorted(intervals):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        self._starts = [start for start, _ in merged]
        self._ends = [end for _, end in merged]
        self._before = [0, *accumulate(end - start for start, end in merged)]

    def until(self, time: int) -> int:
        """Covered time before `time`."""
        index = bisect_right(self._starts, time)
        covered = self._before[index]
        if index and self._ends[index - 1] > time:
            covered -= self._ends[index - 1] - time
        return covered

    def within(self, begin: int, end: int) -> int:
        """Covered time in [begin, end); 0 for an empty or reversed window."""
        return max(self.until(end) - self.until(begin), 0)


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """What intervals cover, group by group; all arrays have one value a group. Groups without intervals have 0 in
    `pieces`, and their times mean nothing.

    busy_ns    length of the union
    first_ns   start of the earliest interval, empty ones included
    last_ns    end of the latest
    pieces     maximal covered stretches; between two of them lies a gap
    """

    busy_ns: LongArray
    first_ns: LongArray
    last_ns: LongArray
    pieces: LongArray

    @property
    def window_ns(self) -> LongArray:
        """From the first start to the last end."""
        return np.where(self.pieces > 0, self.last_ns - self.first_ns, 0)

    @property
    def idle_ns(self) -> LongArray:
        """The part of the window that nothing covers."""
        return self.window_ns - self.busy_ns


def covers(group: LongArray, start: LongArray, end: LongArray, count: int) -> Cover:
    """The union of [start, end) for each of `count` groups. Rows in any order; empty intervals count as points."""
    order = np.lexsort((end, start, group))
    group, start, end = group[order], start[order], end[order]
    heads = np.flatnonzero(np.concatenate((np.ones(min(len(group), 1), dtype=np.bool_), group[1:] != group[:-1])))
    reach = _reach(end, heads)
    first = np.zeros(len(group), dtype=np.bool_)
    first[heads] = True
    fresh = first.copy()
    fresh[1:] |= start[1:] > reach[:-1]
    before = np.where(first, start, np.concatenate((start[:1], reach[:-1])))
    added = np.where(fresh, end - start, np.maximum(end - before, 0))
    found = [np.zeros(count, dtype=np.int64) for _ in range(4)]
    np.add.at(found[0], group, added)
    found[1][group[heads]] = start[heads]
    tails = np.concatenate((heads[1:], [len(group)])) - 1 if len(heads) else heads
    found[2][group[tails]] = reach[tails]
    np.add.at(found[3], group[fresh], 1)
    return Cover(*found)


def _reach(end: LongArray, heads: LongArray) -> LongArray:
    """Latest end so far within the group. Rows are sorted by group."""
    if not len(end):
        return end
    lowest, highest = int(end.min()), int(end.max())
    width = highest - lowest + 1
    if width * (len(heads) + 1) < 2**62:
        starts_group = np.zeros(len(end), dtype=np.int64)
        starts_group[heads] = 1
        place = np.cumsum(starts_group) - 1
        return np.maximum.accumulate(end - lowest + place * width) - place * width + lowest
    borders = [*heads.tolist(), len(end)]
    parts = [np.maximum.accumulate(end[begin:stop]) for begin, stop in pairwise(borders)]
    return np.concatenate(parts)
