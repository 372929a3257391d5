"""How much of a window was covered by work. Exact in integers; intervals may overlap and come in any order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


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
