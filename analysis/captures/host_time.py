"""What each host thread did over time: disjoint pieces, each with the innermost call, operator or range."""

from __future__ import annotations

import numpy as np

from ...instrumentation.sources.arrays import LongArray, empty, grouped, rows_by
from ...instrumentation.sources.nesting import segments
from ...instrumentation.sources.trace import HOST_KINDS, OVERHEAD
from ..intervals import merge
from .rows import CaptureRows

Named = tuple[str, str]
"""(kind, name) of what a thread was in."""


class ThreadTime:
    """Disjoint pieces of one thread's time, in order. Where its rows cross, the one that began later counts."""

    def __init__(self, rows: CaptureRows, own: LongArray) -> None:
        host = rows.host
        self._begin, self._end, row = segments(host.start[own], host.end[own])
        row = own[row]
        self._code, head = grouped(host.kind[row], host.name[row])
        kinds, names = host.kind[row[head]].tolist(), host.name[row[head]].tolist()
        self._named = [(HOST_KINDS[kind], rows.names[name]) for kind, name in zip(kinds, names, strict=True)]

    def within(self, idle: LongArray) -> list[tuple[Named, int]]:
        """(what it was in, for how long) during the gaps, which are sorted and disjoint."""
        if not len(idle):
            return []
        first, stop = self._near(idle[0, 0], idle[-1, 1])
        return self._sums(first, stop, covered(idle, self._begin[first:stop], self._end[first:stop]))

    def most_of(self, gap: LongArray) -> Named | None:
        """What it was in for most of the gap; None: nothing was recorded for longer."""
        first, stop = self._near(gap[0], gap[1])
        shared = np.minimum(self._end[first:stop], gap[1]) - np.maximum(self._begin[first:stop], gap[0])
        found = self._sums(first, stop, shared)
        if not found:
            return None
        named, longest = max(found, key=lambda item: item[1])
        return named if longest >= int(gap[1] - gap[0]) - int(shared.sum()) else None

    def _near(self, start: int, end: int) -> tuple[int, int]:
        """The pieces that overlap [start, end)."""
        return int(np.searchsorted(self._end, start, side="right")), int(np.searchsorted(self._begin, end, side="left"))

    def _sums(self, first: int, stop: int, time: LongArray) -> list[tuple[Named, int]]:
        sums = np.zeros(len(self._named), dtype=np.int64)
        np.add.at(sums, self._code[first:stop], time)
        return [(self._named[code], int(sums[code])) for code in np.flatnonzero(sums).tolist()]


class HostTime:
    """Times of all threads, and the profiler's own work by process: looked up once for all devices."""

    def __init__(self, rows: CaptureRows) -> None:
        self._rows = rows
        working = np.flatnonzero(rows.host.kind != OVERHEAD)
        self._rows_of = {thread: working[own] for thread, own in rows_by(rows.host.thread[working]).items()}
        self._threads: dict[int, ThreadTime] = {}
        self._own_work = np.flatnonzero(rows.host.kind == OVERHEAD)
        self._overhead: dict[tuple[int, ...], LongArray] = {}

    def of_thread(self, thread: int) -> ThreadTime:
        """What the thread did; the profiler's own work is not its."""
        if thread not in self._threads:
            self._threads[thread] = ThreadTime(self._rows, self._rows_of.get(thread, empty()))
        return self._threads[thread]

    def overhead(self, processes: LongArray) -> LongArray | None:
        """When the profiler was at work in these processes; None where the capture has no rows of that."""
        if not len(self._own_work):
            return None
        key = tuple(processes.tolist())
        if key not in self._overhead:
            chosen = self._own_work[np.isin(self._rows.host.process[self._own_work], processes)]
            self._overhead[key] = merge(self._rows.host.taken(chosen).intervals)
        return self._overhead[key]


def covered(gaps: LongArray, start: LongArray, end: LongArray) -> LongArray:
    """Time of the gaps within each [start, end): they are sorted and disjoint, so running totals tell."""
    if not len(gaps):
        return np.zeros(len(start), dtype=np.int64)
    total = np.concatenate(([0], np.cumsum(gaps[:, 1] - gaps[:, 0])))

    def until(time: LongArray) -> LongArray:
        place = np.searchsorted(gaps[:, 0], time, side="right")
        over = np.maximum(gaps[np.maximum(place - 1, 0), 1] - time, 0)
        return np.asarray(total[place] - np.where(place > 0, over, 0), dtype=np.int64)

    return until(end) - until(start)
