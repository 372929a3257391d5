"""The switch `block_table_commit`: how what changed in the host's block tables reaches the device's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..devices.base import Device, Work
from ..devices.costs import MOVE
from .device_sets import DeviceSets
from .growing import GrowingBuffer
from .road import Road
from .staged import StagedTable
from .table_diffs import FIELDS, DiffTable, IntArray, RowDiffs, Source, pack
from .table_kernels import TableKernels
from .table_pool import TablePool


class Part(Protocol):
    """One KV cache group's table on the host; see state/block_table.py."""

    mirror: npt.NDArray[Any]  # [rows, width] int32

    @property
    def dirty(self) -> bool:
        """Whether something changed that the step's device table has not got."""
        ...

    def touch(self, row: int, start: int, end: int) -> None:
        """Columns from `start` on of the row were written; from `end` on they are null.

        Whatever is not told here may never reach the device.
        """
        ...

    def touch_each(self, rows: npt.NDArray[np.intp], starts: IntArray, ends: IntArray) -> None:
        """The same of distinct rows."""
        ...


class Transfer(Protocol):
    """Brings the tables of all groups up to date on the device.

    pools  the device's tables, one pool a set; row r there is row r of the mirror
    """

    pools: tuple[TablePool, ...]

    @property
    def parts(self) -> Sequence[Part]:
        """The host side, one a group."""
        ...

    def send(self, num_rows: int) -> tuple[int, ...]:
        """Enqueue the copies that make the first `num_rows` rows true; returns their correlations."""
        ...


class WholeRows:
    """`full`: the rows of the batch, full width, every step."""

    def __init__(self, parts: Sequence[StagedTable], pools: tuple[TablePool, ...]) -> None:
        self.parts = parts
        self.pools = pools

    def send(self, num_rows: int) -> tuple[int, ...]:
        """One copy a group."""
        return tuple([part.publish(num_rows) for part in self.parts])


class Scatter:
    """Packed differences on their way: one copy, then one kernel for all groups behind the wait for the copies."""

    def __init__(self, device: Device, buffer: GrowingBuffer, kernels: TableKernels) -> None:
        self._device = device
        self._buffer = buffer
        self._kernels = kernels
        self._waiting: tuple[TablePool, int, int, int] | None = None

    def send(self, sources: Sequence[Source], diffs: Sequence[RowDiffs], pool: TablePool) -> tuple[int, ...]:
        """Pack and copy what is to be done to `pool`. Returns the copy's correlation (0 where the device reads host
        memory), nothing when there is nothing to do.
        """
        num_diffs = sum([part.rows.size for part in diffs])
        if not num_diffs:
            return ()
        num_ids = sum([part.num_ids for part in diffs])
        size = FIELDS * num_diffs + num_ids
        pack(sources, diffs, self._buffer.acquire(size))
        copy = self._buffer.publish(size)
        self._waiting = (pool, num_diffs, size, copy)
        return (copy,)

    def arrive(self) -> None:
        """Enqueue the kernel for what was sent."""
        if self._waiting is None:
            return
        (pool, num_diffs, size, copy), self._waiting = self._waiting, None
        packed, kernels = self._buffer.gpu, self._kernels
        self._device.launch(
            "apply_diffs", lambda: kernels.scatter(pool, packed, num_diffs),
            Work(MOVE, rows=num_diffs, moved_bytes=4 * size), consumes=(copy,),
        )  # fmt: skip


class DiffRows:
    """`staged`: only new ids. Kernels alone write the one pool, so it needs no second one whatever the copies do."""

    def __init__(self, parts: Sequence[DiffTable], pool: TablePool, road: Road, scatter: Scatter) -> None:
        self.parts = parts
        self.pools = (pool,) * road.sets.count
        self._scatter = scatter
        road.arrivals.append(scatter.arrive)

    def send(self, num_rows: int) -> tuple[int, ...]:
        """At most one copy for all groups; rows behind the batch change as well, when their requests go."""
        if not any([part.dirty for part in self.parts]):
            return ()
        return self._scatter.send(self.parts, [part.take() for part in self.parts], self.pools[0])


class DirtyTable:
    """A StagedTable that knows, for each set of device tables, which rows it lacks."""

    def __init__(self, staged: StagedTable, sets: DeviceSets) -> None:
        self.staged = staged
        self.mirror = staged.mirror
        self._sets = sets
        self._lacking = np.zeros((sets.count, self.mirror.shape[0]), dtype=np.bool_)
        self._outdated = [False] * sets.count

    @property
    def dirty(self) -> bool:
        """Whether the step's device table lacks a row."""
        return self._outdated[self._sets.current]

    def take(self) -> npt.NDArray[np.intp]:
        """The rows that the step's device table lacks; it is taken to get them."""
        current = self._sets.current
        if not self._outdated[current]:
            return np.empty(0, dtype=np.intp)
        self._outdated[current] = False
        rows = np.flatnonzero(self._lacking[current])
        self._lacking[current] = False
        return rows

    def touch(self, row: int, start: int, end: int) -> None:
        """The row will travel whole."""
        self._lacking[:, row] = True
        self._outdated = [True] * len(self._outdated)
        self.staged.touch(row, start, end)

    def touch_each(self, rows: npt.NDArray[np.intp], starts: IntArray, ends: IntArray) -> None:
        """The rows will travel whole."""
        self._lacking[:, rows] = True
        self._outdated = [True] * len(self._outdated)
        self.staged.touch_each(rows, starts, ends)

    def ids(self, diffs: RowDiffs, firsts: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> None:
        """Whole rows behind each other."""
        out.reshape(diffs.rows.size, -1)[:] = self.mirror[diffs.rows]


class ChangedRows:
    """`dirty_rows`: rows that changed, full width, packed into one copy that a kernel spreads; where at least half of a
    group's rows changed they travel as with `full`, which needs no kernel.
    """

    def __init__(
        self, parts: Sequence[DirtyTable], pools: tuple[TablePool, ...], road: Road, scatter: Scatter
    ) -> None:
        self.parts = parts
        self.pools = pools
        self._sets = road.sets
        self._scatter = scatter
        road.arrivals.append(scatter.arrive)

    def send(self, num_rows: int) -> tuple[int, ...]:
        """A copy for each group that travels in bulk, and one for the rest."""
        copies: list[int] = []
        few: list[RowDiffs] = []
        for part in self.parts:
            rows = part.take()
            if rows.size and 2 * rows.size >= num_rows:
                changed_bytes = rows.size * part.mirror[0].nbytes
                copies.append(part.staged.publish(max(num_rows, int(rows[-1]) + 1), changed_bytes))
                rows = rows[:0]
            few.append(_whole_rows(rows, part.mirror.shape[1]))
        return tuple(copies) + self._scatter.send(self.parts, few, self.pools[self._sets.current])


def _whole_rows(rows: npt.NDArray[np.intp], width: int) -> RowDiffs:
    zeros = np.zeros(rows.size, dtype=np.int32)
    return RowDiffs(rows, zeros, np.full(rows.size, width, dtype=np.int32), zeros, rows.size * width)
