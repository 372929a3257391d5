"""Device work tied to the calls that caused it: by correlation id within a process, never by time.

All kernels of a graph replay carry the correlation of the one launch. Id 0 and an absent id tie nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .arrays import ABSENT, BoolArray, LongArray, filled
from .trace import CALLS, GRAPH, KERNEL, LAUNCH, CopyRows, DeviceRows, HostRows

_ID_BITS = 40


class Correlated(Protocol):
    """Rows that may have to do with a call."""

    @property
    def process(self) -> LongArray:
        """Process of each row."""
        ...

    @property
    def start(self) -> LongArray:
        """When each row begins."""
        ...

    @property
    def correlation(self) -> LongArray:
        """Correlation id of each row, ABSENT where null."""
        ...


class HostCalls(Correlated, Protocol):
    """Host rows; some of them are calls."""

    @property
    def end(self) -> LongArray:
        """When each row ends."""
        ...

    @property
    def kind(self) -> LongArray:
        """Place in HOST_KINDS of each row."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The calls of host rows: `row` is the place of each among them. Sorted by process, correlation, start.

    wide    the ids that occur, sorted, where one needs more than 40 bits: then keys hold their places; else None
    start   of each, where some ids came again (counters wrap, windows are put together); else None
    """

    row: LongArray
    key: LongArray
    wide: LongArray | None = None
    start: LongArray | None = None

    def of(self, rows: Correlated) -> LongArray:
        """Place among the host rows of the call behind each row; -1 where none was recorded."""
        if not len(self.row):
            return filled(len(rows.start), -1)
        ids, known = self._places(rows.correlation)
        wanted = (rows.process << _ID_BITS) | ids
        place = np.searchsorted(self.key, wanted, side="left")
        place = np.minimum(place, len(self.key) - 1)
        found = (self.key[place] == wanted) & known & _ties(rows.correlation)
        return np.where(found, self.row[self._latest(place, rows.start)], -1)

    def _latest(self, first: LongArray, time: LongArray) -> LongArray:
        """Of the calls with the id of the one at `first`, the last that began by then; the first where none had."""
        if self.start is None:
            return first
        moments = np.sort(self.start)
        group = np.cumsum(np.concatenate(([False], self.key[1:] != self.key[:-1])))
        width = len(moments) + 1
        at = group * width + np.searchsorted(moments, self.start, side="right")
        wanted = group[first] * width + np.searchsorted(moments, time, side="right")
        return np.maximum(np.searchsorted(at, wanted, side="right") - 1, first)

    def _places(self, correlation: LongArray) -> tuple[LongArray, BoolArray]:
        """(what stands for each id in a key, whether it may be that of a call)."""
        if self.wide is None:
            narrow = _narrow(correlation)
            return np.where(narrow, correlation, 0), narrow
        place = np.minimum(np.searchsorted(self.wide, correlation), len(self.wide) - 1)
        return place, self.wide[place] == correlation


def lacks_kernels(host: HostRows, device: DeviceRows, copies: CopyRows) -> bool:
    """Whether calls launched kernels and none was recorded; calls without any work of a device count as such too."""
    if np.isin(device.kind, (KERNEL, GRAPH)).any():
        return False
    return bool((host.kind == LAUNCH).any()) or not (len(device) or len(copies))


def calls_of(host: HostCalls) -> Calls:
    """Index of the calls by process and correlation. Of several with one id that lie in one another the outermost
    counts; of those that follow one another each has work of its own."""
    row = np.flatnonzero(np.isin(host.kind, CALLS) & _ties(host.correlation)).astype(np.int64)
    ids = host.correlation[row]
    wide = None if _narrow(ids).all() else np.unique(ids)
    key = (host.process[row] << _ID_BITS) | (ids if wide is None else np.searchsorted(wide, ids))
    order = np.lexsort((host.start[row], key))
    row, key = row[order], key[order]
    again = np.concatenate(([False], key[1:] == key[:-1])) if len(key) else np.zeros(0, dtype=np.bool_)
    if not again.any():
        return Calls(row, key, wide)
    kept = ~again
    kept[1:] |= host.start[row[1:]] >= _reach(host.end[row], again)[:-1]
    row, key = row[kept], key[kept]
    return Calls(row, key, wide, host.start[row])


def inner_calls(host: HostCalls, calls: Calls) -> BoolArray:
    """Host rows that are calls within another one with their id: of the driver, by which the runtime does what it was
    called for. A launch or a wait that both recorded is one."""
    found = np.isin(host.kind, CALLS) & _ties(host.correlation)
    found[calls.row] = False
    return np.asarray(found, dtype=np.bool_)


def _reach(end: LongArray, again: BoolArray) -> LongArray:
    """The latest end so far among the calls with one id; `again` says that a call has the id of the one before."""
    group = np.cumsum(~again)
    order = np.argsort(end, kind="stable")
    rank = np.empty(len(end), dtype=np.int64)
    rank[order] = np.arange(len(end))
    latest = np.maximum.accumulate(group * len(end) + rank) - group * len(end)
    return np.asarray(end[order[latest]], dtype=np.int64)


def _ties(correlation: LongArray) -> BoolArray:
    return np.asarray((correlation != ABSENT) & (correlation != 0))


def _narrow(correlation: LongArray) -> BoolArray:
    """Ids that fit beside a process in one number: counters of 32 bits nearly always."""
    return np.asarray(correlation >> _ID_BITS == 0)
