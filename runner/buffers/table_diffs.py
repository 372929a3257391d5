"""Block tables that live on the device: only block ids that are new there travel, packed on the host, and one kernel
puts them into the tables of all KV cache groups.

A difference of a row is (start, ids): from `start` on the row is `ids` and null behind them. Everything that happened
to a row since the last step is one difference, read from the mirror when it is packed: so an append after a resume, or
a row that came, went and came again, cannot be told in the wrong order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

IntArray = npt.NDArray[np.int32]
FIELDS = 6
"""Of a difference: group, row, start, count of ids, count of nulls behind them, place of the first id among all ids."""
_CLEAN = np.iinfo(np.int32).max


class RowDiffs(NamedTuple):
    """D differences of one group, all [D] int32."""

    rows: IntArray
    starts: IntArray
    counts: IntArray
    nulls: IntArray


class Source(Protocol):
    """A table whose differences are packed."""

    def ids(self, diffs: RowDiffs, firsts: IntArray, out: IntArray) -> None:
        """Write the ids of all differences behind each other into `out`; `firsts` [D] says where each begins."""
        ...


class DiffTable:
    """One group's mirror [rows, width], and what the device's table does not know of it yet."""

    def __init__(self, mirror: torch.Tensor) -> None:
        rows = mirror.shape[0]
        self.mirror: npt.NDArray[Any] = mirror.numpy()
        self._flat = self.mirror.reshape(-1)
        self._width = self.mirror.shape[1]
        self._first = np.full(rows, _CLEAN, dtype=np.int32)  # column from which the device is not up to date
        self._ends = np.zeros(rows, dtype=np.int32)  # where the mirror's row ends
        self._there = np.zeros(rows, dtype=np.int32)  # columns of the device's row that may be other than null
        self.dirty = False

    def touch(self, row: int, start: int, end: int) -> None:
        """Columns from `start` on of the row were written; from `end` on they are null."""
        if start < self._first[row]:
            self._first[row] = start
        self._ends[row] = end
        self.dirty = True

    def touch_each(self, rows: npt.NDArray[np.intp], starts: IntArray, ends: IntArray) -> None:
        """The same of distinct rows."""
        self._first[rows] = np.minimum(self._first.take(rows), starts)
        self._ends[rows] = ends
        self.dirty = True

    def take(self) -> RowDiffs:
        """The differences since the last call; the device is taken to get them."""
        self.dirty = False
        rows = np.flatnonzero(self._first != _CLEAN)
        ends, starts = self._ends[rows], self._first[rows]
        self._first[rows] = _CLEAN
        nulls = np.maximum(self._there[rows] - ends, 0)
        self._there[rows] = ends
        return RowDiffs(rows.astype(np.int32), starts, ends - starts, nulls)

    def ids(self, diffs: RowDiffs, firsts: IntArray, out: IntArray) -> None:
        """See Source."""
        heads = diffs.rows.astype(np.int64) * self._width + diffs.starts
        if out.size == heads.size and diffs.counts.min(initial=1) == 1:  # one id each: decodes that crossed a border
            self._flat.take(heads, out=out, mode="clip")
            return
        index = np.repeat(heads - firsts, diffs.counts)
        index += np.arange(out.size)
        self._flat.take(index, out=out, mode="clip")


def pack(tables: Sequence[Source], diffs: Sequence[RowDiffs], buffer: IntArray) -> tuple[int, int]:
    """Fill `buffer` with FIELDS columns of D differences each, then N ids. Returns (D, N).

    The buffer holds at least FIELDS * D + N elements.
    """
    total = sum(part.rows.size for part in diffs)
    columns = buffer[: FIELDS * total].reshape(FIELDS, total)
    ids = buffer[FIELDS * total :]
    begin = used = 0
    for group, (table, part) in enumerate(zip(tables, diffs, strict=True)):
        size = part.rows.size
        if not size:
            continue
        mine = columns[:, begin : begin + size]
        mine[0], mine[1], mine[2], mine[3], mine[4] = group, part.rows, part.starts, part.counts, part.nulls
        ends = np.cumsum(part.counts)
        firsts = ends - part.counts
        mine[5] = firsts + used
        count = int(ends[-1])
        table.ids(part, firsts, ids[used : used + count])
        begin, used = begin + size, used + count
    return total, used
