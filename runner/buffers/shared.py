"""`staging = zero_copy`: page-locked host memory that the device reads where it lies. Nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..devices.base import Device
from ..devices.memory import locked_bytes
from .device_sets import DeviceSets
from .publication import Publisher
from .slots import Memory, Slot


class SharedSlots:
    """One slot a set; the step's set decides. Whoever reads a set on the device must have ended before it is written:
    the ordering of a step waits for that (inputs/copy_ordering.py), so a slot needs no guard of its own.
    """

    def __init__(self, device: Device, tensors: Sequence[torch.Tensor], sets: DeviceSets) -> None:
        self.slots = tuple(Slot(index, tensor, tensor.numpy()) for index, tensor in enumerate(tensors))
        locked = [device.is_pinned(tensor) for tensor in tensors]
        self.memory: Memory = "pinned" if all(locked) else "pageable"
        sizes = [tensor.nbytes for tensor in tensors]
        self.capacity_bytes = sum(sizes)
        self.reserved_bytes = sum(
            locked_bytes(size) if pinned else size for size, pinned in zip(sizes, locked, strict=True)
        )
        self._device = device
        self._sets = sets

    def acquire(self, reason: str) -> Slot:
        """The slot of the step's set."""
        slot = self.slots[self._sets.current]
        reader = self._sets.readers[self._sets.current]
        slot.exposed = reader is not None and not self._device.host_has_seen(reader.op)
        return slot

    def sent(self, slot: Slot) -> None:
        """Nothing to guard here."""


class SharedPublisher(Publisher):
    """Publishes by doing nothing but its books: what was written is where the device reads it. A row of `buffers` says
    `possible` where the slot was handed out without proof that its last reader had ended.
    """

    def send(self, slot: Slot, dst: torch.Tensor, src: torch.Tensor, changed_bytes: int | None) -> int:
        """Note the use; 0, for there is no copy."""
        reuse_count, slot.uses = slot.uses, slot.uses + 1
        supply, hazard = self.supply, "possible" if slot.exposed else "none"
        self._ledger.add(
            "buffers", self.name, supply.capacity_bytes, src.nbytes, supply.reserved_bytes, supply.memory, slot.index,
            reuse_count, slot.wait_ns, hazard,
        )  # fmt: skip
        return 0
