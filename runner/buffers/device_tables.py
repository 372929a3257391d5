"""Block tables on the device in the order of a step: what slot mapping, attention and graphs read."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..devices.base import Device, Work
from ..devices.costs import MOVE
from .road import Road
from .staged import StagedBuffer
from .table_kernels import TableKernels
from .table_pool import TablePool
from .transfers import Transfer

Rows = slice | npt.NDArray[np.intp]
"""Where the requests of a step live: the first R rows, or the slot of each in the step's order."""
NO_SLOT = -1


class StepOrder(Protocol):
    """Makes row i of the tables that a step reads the blocks of its request i.

    pools  what the step reads, one a set
    """

    pools: tuple[TablePool, ...]

    @property
    def dirty(self) -> bool:
        """Whether the step needs another order than the tables of its set have."""
        ...

    def arrange(self, rows: Rows) -> None:
        """From now on requests live there."""
        ...

    def height(self, num_reqs: int) -> int:
        """How many rows of the host's tables hold all that the step needs."""
        ...

    def send(self, num_reqs: int, columns: int, news: bool) -> tuple[int, ...]:
        """Enqueue what the device needs for the order of `num_reqs` requests; `news`: their rows may have changed.

        No row was ever written from column `columns` on.
        """
        ...


class InPlace:
    """Rows lie in the step's order already: `persistent` and `rebuild`."""

    dirty = False

    def __init__(self, transfer: Transfer) -> None:
        self.pools = transfer.pools

    def arrange(self, rows: Rows) -> None:
        """They lie in front."""

    def height(self, num_reqs: int) -> int:
        """All rows of the batch."""
        return num_reqs

    def send(self, num_reqs: int, columns: int, news: bool) -> tuple[int, ...]:
        """Nothing."""
        return ()


class ByIndexMap:
    """Rows stay in their slots: a map (step's row -> slot) travels when it changes, and one kernel gathers the rows of
    all groups, behind the kernel that brought them up to date. Rows behind the batch become null rows.
    """

    def __init__(
        self, device: Device, transfer: Transfer, index_map: StagedBuffer, kernels: TableKernels, road: Road
    ) -> None:
        first = transfer.pools[0]
        step = TablePool(device, first.rows, [table.shape[1] for table in first.tables])
        self.pools = (step,) * road.sets.count  # only the compute stream writes it: one serves all sets
        self._device = device
        self._residents = transfer.pools
        self._index_map = index_map
        self._kernels = kernels
        self._sets = road.sets
        self._rows: Rows = np.empty(0, dtype=np.intp)
        self._sent: list[Rows | None] = [None] * road.sets.count
        self._gathered: Rows | None = None
        self._rows_there = 0
        self._waiting: tuple[int, int, tuple[int, ...]] | None = None
        road.arrivals.append(self._arrive)

    @property
    def dirty(self) -> bool:
        """Whether the step's table has another order."""
        return self._gathered is not self._rows

    def arrange(self, rows: Rows) -> None:
        """The index map of the steps to come; a new object whenever it differs."""
        self._rows = rows

    def height(self, num_reqs: int) -> int:
        """Up to the highest slot in use."""
        rows = self._rows
        return int(rows.max()) + 1 if isinstance(rows, np.ndarray) and rows.size else 0

    def send(self, num_reqs: int, columns: int, news: bool) -> tuple[int, ...]:
        """The whole map, when this set of buffers has another one; its tail is negative."""
        copies: tuple[int, ...] = ()
        if not news and not self.dirty:
            return copies
        current = self._sets.current
        if self._sent[current] is not self._rows:
            slots = self._index_map.acquire()
            slots[:num_reqs] = self._rows
            slots[num_reqs:] = NO_SLOT
            copies = (self._index_map.publish(slots.size),)
            self._sent[current] = self._rows
        self._gathered = self._rows
        self._rows_there, num_rows = num_reqs, max(num_reqs, self._rows_there)
        self._waiting = (num_rows, columns, copies)
        return copies

    def _arrive(self) -> None:
        if self._waiting is None:
            return
        (num_rows, columns, copies), self._waiting = self._waiting, None
        current = self._sets.current
        resident, step, index_map = self._residents[current], self.pools[current], self._index_map.gpu
        moved_bytes = 4 * num_rows * sum(min(columns, table.shape[1]) for table in step.tables)
        self._device.launch(
            "gather_rows", lambda: self._kernels.gather(resident, step, index_map, num_rows, columns),
            Work(MOVE, rows=num_rows, moved_bytes=moved_bytes), consumes=copies,
        )  # fmt: skip


class DeviceTables:
    """The device side of all groups' block tables: a transfer brings rows over, an order makes them the step's.

    Hazard: the copies' data is put in its place by what `road.arrived` enqueues; nothing may read the step's tables
    before.
    """

    def __init__(self, transfer: Transfer, order: StepOrder) -> None:
        self._transfer = transfer
        self._order = order
        self.parts = tuple(transfer.parts)
        self.pools = order.pools

    @property
    def dirty(self) -> bool:
        """Whether the tables that the step reads are not what the host has."""
        return self._order.dirty or any(part.dirty for part in self.parts)

    def arrange(self, rows: Rows) -> None:
        """Where the requests of the step live, in its order."""
        self._order.arrange(rows)

    def commit(self, num_reqs: int, columns: int) -> tuple[int, ...]:
        """Copy what the step needs; returns the copies' correlations, none where the device has it all."""
        copies = self._transfer.send(self._order.height(num_reqs))
        return copies + self._order.send(num_reqs, columns, bool(copies))
