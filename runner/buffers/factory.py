"""Makes staged buffers by the switch `staging`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...errors import UsageError
from ...instrumentation.probe.ledger import Ledger
from ..config import Staging
from ..devices.base import Device, StreamName
from .destination import Destination, fresh_tensors
from .growing import GrowingBuffer
from .publication import Publisher
from .road import Road
from .slots import FreshPinned, Pageable, PinnedRing, Supply
from .staged import StagedBuffer, StagedTable


class BufferFactory:
    """Buffers of one runner, all staged alike.

    staging      pinned_ring, pinned_single, pageable, fresh_pinned (runner.config.Staging)
    ring_slots   slots of a pinned ring
    road         guards and device sets; an event a buffer and one set where none is given
    verify       checksum every copy; see Publisher

    Where the device has no pinned memory, every buffer is pageable and `memory_reason` says why.
    Raises UsageError for an unknown staging and for a ring without slots.
    """

    def __init__(
        self, device: Device, ledger: Ledger, staging: Staging = "pinned_ring", *, ring_slots: int = 2,
        road: Road | None = None, verify: bool = False,
    ) -> None:
        if staging not in ("pinned_ring", "pinned_single", "pageable", "fresh_pinned"):
            raise UsageError(
                f"staging: unknown value {staging!r}; known are pinned_ring, pinned_single, pageable, fresh_pinned"
            )
        if ring_slots < 1:
            raise UsageError(f"ring_slots: {ring_slots} is below 1; a ring needs at least one slot")
        self.staging: Staging = staging if device.pinned else "pageable"
        self.memory_reason = "" if staging == self.staging else device.pinned_reason
        self._device = device
        self._ledger = ledger
        self._slots = 1 if staging == "pinned_single" else ring_slots
        self.road = road or Road()
        self._verify = verify
        self._made: list[Publisher] = []

    def buffer(
        self, name: str, capacity: int, dtype: torch.dtype, *, stream: StreamName = "compute",
    ) -> StagedBuffer:
        """A buffer of `capacity` elements whose copies run on `stream`."""
        if self.staging == "pageable":
            supply: Supply = Pageable(self._device.host_tensor((capacity,), dtype, pinned=False))
        else:
            supply = self._pinned((capacity,), dtype, stream)
        return StagedBuffer(self._destination((capacity,), dtype), self._publisher(name, stream, supply))

    def table(
        self, name: str, rows: int, width: int, stream: StreamName = "compute",
        gpus: Sequence[torch.Tensor] | None = None,
    ) -> StagedTable:
        """A table [rows, width] int32 whose copies run on `stream`, into `gpus` (one a set) or device tensors of its
        own. The mirror is never page-locked: it may be large.
        """
        mirror = self._device.host_tensor((rows, width), torch.int32, pinned=False)
        if self.staging == "pageable":
            supply: Supply = Pageable(mirror)
        else:
            supply = self._pinned((rows, width), torch.int32, stream)
        destination = self._destination((rows, width), torch.int32, gpus)
        return StagedTable(mirror, destination, self._publisher(name, stream, supply))

    def growing(
        self, name: str, least: int, dtype: torch.dtype, *, stream: StreamName = "compute"
    ) -> GrowingBuffer:
        """A buffer of at least `least` elements that grows with what a step needs."""
        return GrowingBuffer(
            self._device, stream, lambda capacity: self.buffer(name, capacity, dtype, stream=stream), least
        )

    def flush(self) -> None:
        """Write the rows of all buffers that still wait for a verdict (`verify`); call after a synchronize."""
        for publisher in self._made:
            publisher.flush()

    def _pinned(self, shape: Sequence[int], dtype: torch.dtype, stream: StreamName) -> Supply:
        if self.staging == "fresh_pinned":
            return FreshPinned(self._device, shape, dtype)
        return PinnedRing(self._device, shape, dtype, self._slots, self.road.make_guard(self._device, stream))

    def _destination(
        self, shape: Sequence[int], dtype: torch.dtype, gpus: Sequence[torch.Tensor] | None = None
    ) -> Destination:
        return Destination(self._device, gpus or fresh_tensors(self._device, shape, dtype, self.road), self.road)

    def _publisher(self, name: str, stream: StreamName, supply: Supply) -> Publisher:
        publisher = Publisher(self._device, self._ledger, name, stream, supply, verify=self._verify)
        self._made.append(publisher)
        return publisher
