"""Makes staged buffers by the switch `staging`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch

from ...errors import UsageError
from ...instrumentation.probe.ledger import Ledger
from ..config import Staging
from ..devices.base import Device, StreamName
from .destination import Destination, fresh_tensors
from .growing import GrowingBuffer
from .publication import Publisher
from .road import Road
from .shared import SharedPublisher, SharedSlots
from .slots import FreshPinned, Pageable, PinnedRing, Supply
from .staged import StagedBuffer, StagedTable
from .table_pool import TablePool
from .targets import TargetUses


class BufferFactory:
    """Buffers of one runner, all staged alike.

    staging      pinned_ring, pinned_single, pageable, fresh_pinned, zero_copy (runner.config.Staging)
    ring_slots   slots of a pinned ring
    road         guards and device sets; an event a buffer and one set where none is given
    verify       checksum every copy, and device tables behind their readers; see Publisher and TargetUses

    Where the device cannot do that for want of pinned memory, every buffer is pageable and `memory_reason` says why.
    Raises UsageError for an unknown staging and for a ring without slots.
    """

    def __init__(
        self, device: Device, ledger: Ledger, staging: Staging = "pinned_ring", *, ring_slots: int = 2,
        road: Road | None = None, verify: bool = False,
    ) -> None:
        known = get_args(Staging)
        if staging not in known:
            raise UsageError(f"staging: unknown value {staging!r}; known are {', '.join(known)}")
        if ring_slots < 1:
            raise UsageError(f"ring_slots: {ring_slots} is below 1; a ring needs at least one slot")
        possible = device.maps_host if staging == "zero_copy" else device.pinned
        self.staging: Staging = staging if possible else "pageable"
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
        shape = (capacity,)
        if self.staging == "zero_copy":
            sets = range(self.road.sets.count)
            hosts = [self._device.host_tensor(shape, dtype, pinned=True) for _ in sets]
            return StagedBuffer(*self._shared(name, hosts, [self._device.map_host(host) for host in hosts]))
        if self.staging == "pageable":
            supply: Supply = Pageable(self._device.host_tensor(shape, dtype, pinned=False))
        else:
            supply = self._pinned(shape, dtype, stream)
        gpus = fresh_tensors(self._device, shape, dtype, self.road)
        return StagedBuffer(Destination(self._device, gpus, self.road), self._publisher(name, stream, supply))

    def pools(self, rows: int, widths: Sequence[int]) -> tuple[TablePool, ...]:
        """Device memory for a table [rows, widths[g]] of each KV cache group, one pool a set."""
        shared = self.staging == "zero_copy"
        return tuple(TablePool(self._device, rows, widths, shared=shared) for _ in range(self.road.sets.count))

    def table(
        self, name: str, pools: Sequence[TablePool], group: int = 0, stream: StreamName = "compute"
    ) -> StagedTable:
        """The table of one group in `pools`, whose copies run on `stream`. The mirror is never page-locked: it may be
        large.
        """
        gpus = [pool.tables[group] for pool in pools]
        shape = gpus[0].shape
        mirror = self._device.host_tensor(shape, torch.int32, pinned=False)
        if self.staging == "zero_copy":
            return StagedTable(mirror, *self._shared(name, [pool.host_tables[group] for pool in pools], gpus))
        if self.staging == "pageable":
            supply: Supply = Pageable(mirror)
        else:
            supply = self._pinned(shape, torch.int32, stream)
        publisher = self._publisher(name, stream, supply, final=True)
        return StagedTable(mirror, Destination(self._device, gpus, self.road), publisher)

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

    def _shared(
        self, name: str, hosts: Sequence[torch.Tensor], gpus: Sequence[torch.Tensor]
    ) -> tuple[Destination, Publisher]:
        """The device side is the host side: `gpus` map `hosts`."""
        supply = SharedSlots(self._device, hosts, self.road.sets)
        publisher = SharedPublisher(self._device, self._ledger, name, "compute", supply, verify=False)
        self._made.append(publisher)
        return Destination(self._device, gpus, self.road), publisher

    def _publisher(self, name: str, stream: StreamName, supply: Supply, *, final: bool = False) -> Publisher:
        """`final`: nothing but copies writes the device side, so that a checksum tells who else did."""
        publisher = Publisher(self._device, self._ledger, name, stream, supply, verify=self._verify)
        if self.road.apart:
            checked = self._verify and final
            publisher.target = TargetUses(self._device, self._ledger, name, self.road, verify=checked)
        self._made.append(publisher)
        return publisher
