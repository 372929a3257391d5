"""One piece of host memory that a copy reads from, and the kinds of supply that hand such pieces out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy.typing as npt
import torch

from ..devices.base import Device, Event
from ..devices.memory import locked_bytes
from .guards import Guard

Memory = Literal["pinned", "pageable"]


@dataclass(slots=True)
class Slot:
    """Host memory as a tensor (for the copy) and as a NumPy view of the same storage (for the writer).

    index    place in its ring; None for memory that is used once
    copy     correlation of the last copy that reads it, 0 before the first
    event    behind that copy; the guard sets it
    uses     copies made from it so far
    wait_ns  what the writer waited for it, last time
    exposed  it was handed out without proof that its last copy had ended
    """

    index: int | None
    tensor: torch.Tensor
    array: npt.NDArray[Any]
    copy: int = 0
    event: Event | None = None
    uses: int = 0
    wait_ns: int = 0
    exposed: bool = False


class Supply(Protocol):
    """Where slots come from. Byte counts are of all slots together."""

    memory: Memory
    capacity_bytes: int
    reserved_bytes: int

    def acquire(self, reason: str) -> Slot:
        """A slot that may be written, after waiting for the copy that reads it (a guarded supply)."""
        ...

    @property
    def sent(self) -> Callable[[Slot], None]:
        """To be called when a copy from a slot was enqueued; `slot.copy` names it."""
        ...


class PinnedRing:
    """`count` page-locked slots, used in turn; the guard keeps a writer from a slot whose copy may be in flight.

    Where page-locked memory ran out on the way, `memory` is pageable: one slot of ordinary memory makes it so.
    """

    def __init__(self, device: Device, shape: Sequence[int], dtype: torch.dtype, count: int, guard: Guard) -> None:
        self.slots = [_slot(device, shape, dtype, index) for index in range(count)]
        locked = [device.is_pinned(slot.tensor) for slot in self.slots]
        self.memory: Memory = "pinned" if all(locked) else "pageable"
        sizes = [slot.array.nbytes for slot in self.slots]
        self.capacity_bytes = sum(sizes)
        self.reserved_bytes = sum(
            locked_bytes(size) if pinned else size for size, pinned in zip(sizes, locked, strict=True)
        )
        self._seen = device.host_has_seen
        self._guard = guard
        self.sent = guard.protect
        self._next = 0

    def acquire(self, reason: str) -> Slot:
        """The slot that was used longest ago."""
        slot = self.slots[self._next]
        self._next = (self._next + 1) % len(self.slots)
        if self._seen(slot.copy):  # usually: nothing to wait for, and proof of it
            slot.wait_ns, slot.exposed = 0, False
        else:
            slot.wait_ns = self._guard.wait(slot, reason)
            slot.exposed = not self._seen(slot.copy)
        return slot


class FreshPinned:
    """A new page-locked tensor for each use. The caching allocator underneath recycles, and keeps what is in flight.

    `memory` and `reserved_bytes` are those of the last use: page-locked memory may run out during a run.
    """

    def __init__(self, device: Device, shape: Sequence[int], dtype: torch.dtype) -> None:
        self._device = device
        self._shape = tuple(shape)
        self._dtype = dtype
        self.capacity_bytes = dtype.itemsize * torch.Size(self._shape).numel()
        self.reserved_bytes = locked_bytes(self.capacity_bytes)
        self.memory: Memory = "pinned"

    def acquire(self, reason: str) -> Slot:
        """Memory that no copy has read before."""
        slot = _slot(self._device, self._shape, self._dtype, None)
        if not self._device.pinned:
            self.memory, self.reserved_bytes = "pageable", self.capacity_bytes
        return slot

    def sent(self, slot: Slot) -> None:
        """Nothing to guard: it is not written again."""


class Pageable:
    """One ordinary tensor. Its copy has read it all when the call returns, so it may be written at once."""

    memory: Memory = "pageable"

    def __init__(self, tensor: torch.Tensor) -> None:
        self._slot = Slot(0, tensor, tensor.numpy())
        self.capacity_bytes = self.reserved_bytes = self._slot.array.nbytes

    def acquire(self, reason: str) -> Slot:
        """The slot."""
        return self._slot

    def sent(self, slot: Slot) -> None:
        """Nothing to guard."""


def _slot(device: Device, shape: Sequence[int], dtype: torch.dtype, index: int | None) -> Slot:
    tensor = device.host_tensor(shape, dtype, pinned=True)
    return Slot(index, tensor, tensor.numpy())
