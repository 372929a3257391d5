"""Device work tied to the calls that caused it: by correlation id within a process, never by time.

All kernels of a graph replay carry the correlation of the one launch. Id 0 and an absent id tie nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import ABSENT, BoolArray, LongArray, filled
from .trace import CALLS, HostRows, Rows, Trace

_ID_BITS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The calls of a trace: `row` is the place of each in `Trace.host`. Sorted by process, correlation, start."""

    row: LongArray
    key: LongArray

    def of(self, rows: Rows) -> LongArray:
        """Place in `Trace.host` of the call behind each row; -1 where none was recorded."""
        if not len(self.row):
            return filled(len(rows), -1)
        wanted = _keys(rows)
        place = np.searchsorted(self.key, wanted, side="left")
        place = np.minimum(place, len(self.key) - 1)
        found = (self.key[place] == wanted) & _ties(rows)
        return np.where(found, self.row[place], -1)


def calls_of(trace: Trace) -> Calls:
    """Index of the calls by process and correlation; of several with one id the first counts."""
    host = trace.host
    row = np.flatnonzero(np.isin(host.kind, CALLS) & _ties(host)).astype(np.int64)
    part: HostRows = host.taken(row)
    key = _keys(part)
    order = np.lexsort((part.start, key))
    return Calls(row[order], key[order])


def _ties(rows: Rows) -> BoolArray:
    return np.asarray((rows.correlation != ABSENT) & (rows.correlation != 0))


def _keys(rows: Rows) -> LongArray:
    """Process and correlation in one number. Ids are counters of 32 bits; what lies beyond is folded into 40."""
    return (rows.process << _ID_BITS) | (rows.correlation & ((1 << _ID_BITS) - 1))
