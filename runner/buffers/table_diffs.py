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


Places = npt.NDArray[np.integer[Any]]


class RowDiffs(NamedTuple):
    """D differences of one group, all [D]: `counts` ids from column `starts` of `rows` on, `nulls` null blocks behind.

    `appends`: each is one id and no null, as when decodes cross a block border; `num_ids` is the sum of `counts`.
    """

    rows: Places
    starts: IntArray
    counts: IntArray
    nulls: IntArray
    num_ids: int
    appends: bool = False


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
        self._only: tuple[Places, IntArray, IntArray] | None = None  # rows, starts, ends, while nothing else is dirty
        self.dirty = False

    def touch(self, row: int, start: int, end: int) -> None:
        """Columns from `start` on of the row were written; from `end` on they are null."""
        self._spread()
        if start < self._first[row]:
            self._first[row] = start
        self._ends[row] = end
        self.dirty = True

    def touch_each(self, rows: npt.NDArray[np.intp], starts: IntArray, ends: IntArray) -> None:
        """The same of distinct rows."""
        if not self.dirty:  # the common step: kept as it is, until something else is touched
            self._only = (rows, starts, ends)
        else:
            self._spread()
            self._note(rows, starts, ends)
        self.dirty = True

    def take(self) -> RowDiffs:
        """The differences since the last call; the device is taken to get them."""
        self.dirty = False
        if self._only is not None:
            (rows, starts, ends), self._only = self._only, None
            there = self._there.take(rows)
            counts = ends - starts
            if not np.count_nonzero(counts != 1) and not np.count_nonzero(there > starts):
                self._there[rows] = ends
                return RowDiffs(rows, starts, counts, np.zeros_like(counts), rows.size, appends=True)
            self._note(rows, starts, ends)
        rows = (self._first != _CLEAN).nonzero()[0]
        ends, starts = self._ends.take(rows), self._first.take(rows)
        self._first[rows] = _CLEAN
        nulls = np.maximum(self._there.take(rows) - ends, 0)
        self._there[rows] = ends
        counts = ends - starts
        return RowDiffs(rows, starts, counts, nulls, int(np.add.reduce(counts)))

    def _spread(self) -> None:
        if self._only is not None:
            only, self._only = self._only, None
            self._note(*only)

    def _note(self, rows: Places, starts: IntArray, ends: IntArray) -> None:
        self._first[rows] = np.minimum(self._first.take(rows), starts)
        self._ends[rows] = ends

    def ids(self, diffs: RowDiffs, firsts: IntArray, out: IntArray) -> None:
        """See Source."""
        heads = diffs.rows.astype(np.int64) * self._width + diffs.starts
        if diffs.appends:
            self._flat.take(heads, out=out, mode="clip")
            return
        index = np.repeat(heads - firsts, diffs.counts)
        index += np.arange(out.size)
        self._flat.take(index, out=out, mode="clip")


def pack(tables: Sequence[Source], diffs: Sequence[RowDiffs], buffer: IntArray) -> tuple[int, int]:
    """Fill `buffer` with FIELDS columns of D differences each, then N ids. Returns (D, N).

    The buffer holds at least FIELDS * D + N elements.
    """
    total = sum([part.rows.size for part in diffs])
    columns = buffer[: FIELDS * total].reshape(FIELDS, total)
    ids = buffer[FIELDS * total :]
    begin = used = 0
    for group, (table, part) in enumerate(zip(tables, diffs, strict=True)):
        size = part.rows.size
        if not size:
            continue
        mine = columns[:, begin : begin + size]
        mine[0], mine[1], mine[2], mine[3] = group, part.rows, part.starts, part.counts
        if part.appends:
            mine[4] = 0
            firsts = np.arange(size, dtype=np.int32)
        else:
            mine[4] = part.nulls
            firsts = np.cumsum(part.counts, dtype=np.int32) - part.counts
        np.add(firsts, used, out=mine[5])
        table.ids(part, firsts, ids[used : used + part.num_ids])
        begin, used = begin + size, used + part.num_ids
    return total, used
