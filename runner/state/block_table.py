"""Page tables of the batch: for each row the physical KV blocks of its request, oldest first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ..buffers.transfers import Part
from ..kv_groups import NULL_BLOCK

IntArray = npt.NDArray[np.int32]
_FEW = 2
"""Rows that are faster written one by one than together."""
_WIDTH_ALIGNMENT_TOKENS = 128


def aligned_width(max_blocks: int, block_size: int) -> int:
    """Blocks in a row so that width * block_size is a multiple of 128 tokens, as vLLM's attention kernels want it."""
    step = _WIDTH_ALIGNMENT_TOKENS // np.gcd(_WIDTH_ALIGNMENT_TOKENS, block_size)
    return int(-(-max_blocks // step) * step)


class BlockTable:
    """Mirror [rows, width] int32, and how many entries of each row are real.

    Behind a row's blocks the mirror is the null block: a moved or cleared row takes its old tail back, so no consumer
    of the full width ever sees another request's block. Hazard: `add_row` over a row that nobody cleared leaves that
    row's tail standing (as vLLM does); the batch clears a row whenever it removes a request.
    """

    def __init__(self, staging: Part) -> None:
        self.staging = staging
        self.values = staging.mirror
        self.num_blocks: npt.NDArray[np.int32] = np.zeros(self.values.shape[0], dtype=np.int32)
        self.width = int(self.values.shape[1])
        self.columns_used = 0
        """No column from here on was ever written."""
        self._reach = self.num_blocks.copy()  # columns of a row that may be other than null; >= num_blocks

    def add_row(self, row: int, block_ids: npt.ArrayLike) -> None:
        """Make the row exactly `block_ids`: a new request, or a resumed one whose old blocks went back to the pool."""
        self._write(row, 0, np.asarray(block_ids, dtype=np.int32))

    def append_row(self, row: int, block_ids: npt.ArrayLike) -> None:
        """Add blocks behind those that the row has."""
        self._write(row, int(self.num_blocks[row]), np.asarray(block_ids, dtype=np.int32))

    def append_each(self, rows: npt.NDArray[np.intp], block_ids: list[int]) -> None:
        """Add one block to each of `rows`, which are distinct."""
        if len(block_ids) <= _FEW:
            for row, block_id in zip(rows.tolist(), block_ids, strict=True):
                self._append(row, block_id)
            return
        places = self.num_blocks.take(rows)
        ends = places + 1
        last = int(np.maximum.reduce(ends))
        if last > self.width:
            raise self._overflow(last)
        self.values[rows, places] = block_ids
        self.num_blocks[rows] = ends
        reach = np.maximum(self._reach.take(rows), ends)
        self._reach[rows] = reach
        self.columns_used = max(last, self.columns_used)
        self.staging.touch_each(rows, places, reach)

    def null_before(self, rows: npt.NDArray[np.intp] | slice, counts: npt.NDArray[np.int32]) -> None:
        """Null the first `counts` entries of each of `rows`; the rows stay as long as they are."""
        chosen = np.arange(self.values.shape[0])[rows]
        passed = np.flatnonzero(counts)
        passed = passed[self.values[chosen[passed], counts[passed] - 1] != NULL_BLOCK]
        for row, count in zip(chosen[passed].tolist(), counts[passed].tolist(), strict=True):
            first = int(np.flatnonzero(self.values[row, :count])[0])  # what was passed before is null already
            self.values[row, first:count] = NULL_BLOCK
            self._touch(row, first)

    def clear(self, row: int) -> None:
        """Null the row."""
        self._end_row(row, 0)

    def move(self, source: int, target: int) -> None:
        """Put the blocks of `source` into `target`, null what `target` had behind them, and null `source`."""
        used = int(self.num_blocks[source])
        self.values[target, :used] = self.values[source, :used]
        self._end_row(target, used)
        self._touch(target, 0)
        self._end_row(source, 0)

    def swap(self, first: int, second: int) -> None:
        """Exchange two rows."""
        span = int(max(self._reach[first], self._reach[second]))
        kept = self.values[first, :span].copy()
        self.values[first, :span] = self.values[second, :span]
        self.values[second, :span] = kept
        for counts in (self.num_blocks, self._reach):
            counts[first], counts[second] = int(counts[second]), int(counts[first])
        self._touch(first, 0)
        self._touch(second, 0)

    def _append(self, row: int, block_id: int) -> None:
        place = int(self.num_blocks[row])
        end = place + 1
        if end > self.width:
            raise self._overflow(end)
        self.values[row, place] = block_id
        self.num_blocks[row] = end
        if end > self._reach[row]:
            self._reach[row] = end
        if end > self.columns_used:
            self.columns_used = end
        self._touch(row, place)

    def _write(self, row: int, start: int, block_ids: npt.NDArray[np.int32]) -> None:
        end = start + block_ids.size
        if end > self.width:
            raise self._overflow(end)
        self.values[row, start:end] = block_ids
        self.num_blocks[row] = end
        self.columns_used = max(end, self.columns_used)
        self._reach[row] = max(end, int(self._reach[row]))
        self._touch(row, start)

    def _overflow(self, num_blocks: int) -> UsageError:
        return UsageError(
            f"block table: {num_blocks} blocks for one request, but a row holds {self.width};"
            " raise max_model_len or table_width"
        )

    def _end_row(self, row: int, length: int) -> None:
        """Make the row `length` blocks long and null all behind them."""
        self.values[row, length : self._reach[row]] = NULL_BLOCK
        self.num_blocks[row] = length
        self._reach[row] = length
        self._touch(row, length)

    def _touch(self, row: int, start: int) -> None:
        self.staging.touch(row, start, int(self._reach[row]))
