"""Staged buffers of one dimension (tokens, positions, lengths) and of two (the block table)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .destination import Destination
from .lag import FEW, RowLag
from .publication import Publisher
from .shared import SharedSlots
from .slots import PinnedRing, Slot


class StagedBuffer:
    """[capacity] elements: acquire, write, publish, each once a step and in this order.

    `gpus` keep their addresses, one a set; `gpu` is the step's. The array that `acquire` returned is the reader's until
    the publish, and stale after the next acquire: in a ring it is then another slot.
    """

    def __init__(self, destination: Destination, publisher: Publisher) -> None:
        self._destination = destination
        self.gpus = destination.gpus
        self.publisher = publisher
        self._take = publisher.acquire
        self._slot: Slot | None = None

    @property
    def gpu(self) -> torch.Tensor:
        """The device tensor of the step's set."""
        return self._destination.gpu

    @property
    def current_set(self) -> int:
        """The set of device buffers that the step fills."""
        return self._destination.sets.current

    @property
    def reused(self) -> bool:
        """Whether the slot acquired last will be handed out again."""
        return self._slot is not None and self._slot.index is not None

    @property
    def cpu(self) -> torch.Tensor:
        """The host tensor of the slot acquired last."""
        assert self._slot is not None, f"buffer {self.publisher.name}: nothing acquired yet"
        return self._slot.tensor

    def acquire(self) -> npt.NDArray[Any]:
        """The whole host side, safe to write; its contents are whatever an earlier step left there."""
        slot = self._slot = self._take()
        return slot.array

    def publish(self, count: int, changed_bytes: int | None = None) -> int:
        """Copy the first `count` elements to `gpu`. Returns the copy's correlation, 0 for an empty copy."""
        slot, destination = self._slot, self._destination
        assert slot is not None, f"buffer {self.publisher.name}: publish without acquire"
        copy = self.publisher.send(slot, *destination.views(slot, count), changed_bytes)
        if destination.lands:
            destination.sent(count, copy)
        return copy

    def flush(self) -> None:
        """Write the `buffers` rows that still wait for a verdict; see Publisher."""
        self.publisher.flush()


class StagedTable:
    """[rows, width]: an authoritative mirror in ordinary memory, behind it slots that are brought up to date lazily.
    Both hold zeros at first.

    Whoever writes a row of `mirror` calls `touch`. At a publish only rows that changed since the slot was last used are
    copied into it; the first rows then travel whole.
    """

    def __init__(self, mirror: torch.Tensor, destination: Destination, publisher: Publisher) -> None:
        self._mirror = mirror
        self.mirror: npt.NDArray[Any] = mirror.numpy()
        self._destination = destination
        self._sets = destination.sets
        self.gpus = destination.gpus
        self._rows_there = [0] * self._sets.count  # rows of each device table that name blocks
        self._outdated = [True] * self._sets.count  # device tables that are not what the mirror is
        self.publisher = publisher
        supply = publisher.supply
        slots = len(supply.slots) if isinstance(supply, PinnedRing | SharedSlots) else 0
        rows = mirror.shape[0]
        self._slot_lags = [RowLag(rows) for _ in range(slots)]  # rows that a slot has not got yet
        self._changed = RowLag(rows)  # rows written since the last publish
        lags = (*self._slot_lags, self._changed)
        self._note, self._note_many = [lag.note for lag in lags], [lag.note_many for lag in lags]
        self._columns = 0  # from here on no row was ever written: slots hold zeros there, as the mirror does
        self._width = mirror.shape[1]
        self._row_bytes = self._width * mirror.element_size()

    @property
    def gpu(self) -> torch.Tensor:
        """The device table of the step's set."""
        return self._destination.gpu

    @property
    def dirty(self) -> bool:
        """Whether the mirror changed since the step's device table was last published."""
        return self._outdated[self._sets.current]

    def touch(self, row: int, start: int = 0, end: int | None = None) -> None:
        """The mirror's row was written, before the column `end` (None: anywhere)."""
        self._written(self._width if end is None else end)
        rows = [row]
        for note in self._note:
            note(rows)

    def touch_each(
        self, rows: npt.NDArray[np.intp], starts: npt.NDArray[np.int32], ends: npt.NDArray[np.int32]
    ) -> None:
        """The same of distinct rows."""
        if not rows.size:
            return
        self._written(int(np.maximum.reduce(ends)))
        if rows.size > FEW:
            for note_many in self._note_many:
                note_many(rows)
        else:
            listed = rows.tolist()
            for note in self._note:
                note(listed)

    def _written(self, last: int) -> None:
        """Something was, before the column `last`."""
        if last > self._columns:
            self._columns = last
        self._outdated = [True] * self._sets.count

    def publish(self, num_rows: int, changed_bytes: int | None = None) -> int:
        """Copy the first `num_rows` rows to `gpu`. Returns the copy's correlation.

        Rows that were given up since the last publish to the same device table travel once more, as null rows: a
        padded graph reads rows behind the batch and must not find a finished request's blocks there.
        `changed_bytes` defaults to the rows among them that were touched since the last publish.
        """
        current = self._sets.current
        self._rows_there[current], num_rows = num_rows, max(num_rows, self._rows_there[current])
        self._outdated[current] = False
        slot = self.publisher.acquire()
        self._fill(slot, num_rows)
        changed = len(self._changed.take(num_rows)) * self._row_bytes if self._changed.any else 0
        if changed_bytes is None:
            changed_bytes = changed
        destination = self._destination
        copy = self.publisher.send(slot, *destination.views(slot, num_rows), changed_bytes)
        if destination.lands:
            destination.sent(num_rows, copy)
        return copy

    def flush(self) -> None:
        """Write the `buffers` rows that still wait for a verdict; see Publisher."""
        self.publisher.flush()

    def _fill(self, slot: Slot, num_rows: int) -> None:
        """Bring the slot's first rows up to date. Pageable memory is the mirror itself; fresh memory has no past."""
        if slot.tensor is self._mirror:
            return
        if slot.index is None:
            slot.array[:num_rows] = self.mirror[:num_rows]
            return
        lag = self._slot_lags[slot.index]
        if not lag.any:  # most publishes in steady decoding
            return
        target, source, columns = slot.array, self.mirror, self._columns
        rows = lag.take(num_rows)
        if isinstance(rows, list):
            for row in rows:
                target[row, :columns] = source[row, :columns]
        else:
            target[rows, :columns] = source[rows, :columns]
