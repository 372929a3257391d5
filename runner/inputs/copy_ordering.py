"""Ordering of host-to-device copies against what reads their targets, and the one event that guards their sources."""

from __future__ import annotations

from typing import Protocol

from ...errors import UsageError
from ..buffers.device_sets import COUNTS, DeviceSets
from ..buffers.guards import StepGuard
from ..buffers.landing import Landing
from ..buffers.road import Road
from ..config import CopyStream, DeviceBuffers, Staging
from ..devices.base import Device, Event, StreamName


class CopyOrdering(Protocol):
    """Which stream carries the copies of a step and what waits for what.

    stream  of the copies; buffers are made for it
    guard   shared by all staged buffers: their slots are free again when the step's last copy has ended
    road    for the factory of the buffers: the guard, and the device sets that the steps use in turn
    """

    stream: StreamName
    guard: StepGuard
    road: Road

    def before_copies(self) -> None:
        """Before the first copy of a step: the device buffers must not be overwritten while they are read."""
        ...

    def before_readers(self) -> None:
        """Behind the last copy and before the first device operation that reads a copied buffer."""
        ...

    def after_readers(self) -> None:
        """Behind the step's forward, the last reader of the block table and of the flat inputs."""
        ...


class ComputeStreamOrdering:
    """Copies and kernels share a stream: the stream itself is the order, and a copy waits for the forward before it."""

    stream: StreamName = "compute"

    def __init__(self, device: Device) -> None:
        self.guard = StepGuard(device, self.stream)
        self.road = Road(lambda *_: self.guard)

    def before_copies(self) -> None:
        """In order already."""

    def before_readers(self) -> None:
        """In order already; only the host memory needs its guard."""
        self.guard.seal()
        self.road.arrived()

    def after_readers(self) -> None:
        """In order already."""


class DedicatedStreamOrdering:
    """Copies have a stream of their own. `guarded`: they wait for the last reader of the device buffers that they fill.

    With one set of buffers that is the forward of the step before, with two the one before that, which has usually
    ended. Without the guard a copy may overwrite a table that a forward in flight still reads; that is for hazard
    tests.
    """

    stream: StreamName = "copy"

    def __init__(self, device: Device, sets: DeviceSets, *, guarded: bool = True) -> None:
        self.guard = StepGuard(device, self.stream)
        self.road = Road(lambda *_: self.guard, sets, apart=True)
        self._device = device
        self._guarded = guarded
        self._sets = sets

    def before_copies(self) -> None:
        """Take the next set and let the copy stream wait for the forward that still reads it."""
        self._sets.advance()
        reader = self._sets.readers[self._sets.current]
        if reader is not None and self._guarded:
            self._device.stream_wait("copy", reader)
        self._sets.exposed = reader is not None and not self._device.stream_follows("copy", reader.op)

    def before_readers(self) -> None:
        """Let the compute stream wait for the copies."""
        self.guard.seal()
        self._device.stream_wait("compute", self._device.record("copy"))
        self.road.arrived()

    def after_readers(self) -> None:
        """Remember where the compute stream has read everything."""
        self.road.read()
        self._sets.readers[self._sets.current] = self._device.record("compute")


class LandingOrdering:
    """Copies fill landing buffers on a stream of their own; the compute stream moves them to the fixed addresses.

    So a copy waits for the short move of the step before and not for its forward, graphs keep one set of addresses,
    and each step pays the move within the device.
    """

    stream: StreamName = "copy"

    def __init__(self, device: Device) -> None:
        self.guard = StepGuard(device, self.stream)
        self.road = Road(lambda *_: self.guard, landing=Landing(device))
        self._device = device
        self._moved: Event | None = None

    def before_copies(self) -> None:
        """Let the copy stream wait until the landing buffers have been emptied."""
        if self._moved is not None:
            self._device.stream_wait("copy", self._moved)

    def before_readers(self) -> None:
        """Let the compute stream wait for the copies, then move what has landed."""
        self.guard.seal()
        self._device.stream_wait("compute", self._device.record("copy"))
        self.road.arrived()
        self._moved = self._device.record("compute")

    def after_readers(self) -> None:
        """In order already: moves and readers share a stream."""


class SharedMemoryOrdering:
    """Nothing is copied: the device reads what the host wrote, so the host itself waits for the last reader of the set
    that it is going to write. With one set that is the forward of the step before; with two, the one before that.
    """

    stream: StreamName = "compute"

    def __init__(self, device: Device, sets: DeviceSets, *, guarded: bool = True) -> None:
        self.guard = StepGuard(device, self.stream)
        self.road = Road(lambda *_: self.guard, sets)
        self._device = device
        self._guarded = guarded
        self._sets = sets

    def before_copies(self) -> None:
        """Take the next set and wait until nobody reads it any more."""
        self._sets.advance()
        reader = self._sets.readers[self._sets.current]
        if self._guarded and reader is not None and not self._device.host_has_seen(reader.op):
            self._device.host_wait(reader, "shared_memory")

    def before_readers(self) -> None:
        """A launch sees what the host wrote before it."""
        self.road.arrived()

    def after_readers(self) -> None:
        """Remember where the device has read everything."""
        self._sets.readers[self._sets.current] = self._device.record("compute")


def make_copy_ordering(
    device: Device, stream: CopyStream, buffers: DeviceBuffers, staging: Staging = "pinned_ring"
) -> CopyOrdering:
    """The ordering for the switches `copy_stream`, `device_buffers` and `staging`."""
    sets, guarded = DeviceSets(COUNTS.get(buffers, 1)), buffers != "single_unguarded"
    if staging == "zero_copy":
        return SharedMemoryOrdering(device, sets, guarded=guarded)
    if stream == "compute":
        return ComputeStreamOrdering(device)
    if stream != "dedicated":
        raise UsageError(f"copy_stream: unknown value {stream!r}; known are compute, dedicated")
    if buffers == "staged_d2d":
        return LandingOrdering(device)
    return DedicatedStreamOrdering(device, sets, guarded=guarded)
