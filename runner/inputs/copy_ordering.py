"""Ordering of host-to-device copies against what reads their targets, and the one event that guards their sources."""

from __future__ import annotations

from typing import Protocol

from ...errors import UsageError
from ..buffers.guards import StepGuard
from ..config import CopyStream, DeviceBuffers
from ..devices.base import Device, Event, StreamName


class CopyOrdering(Protocol):
    """Which stream carries the copies of a step and what waits for what.

    stream  of the copies; buffers are made for it
    guard   shared by all staged buffers: their slots are free again when the step's last copy has ended
    """

    stream: StreamName
    guard: StepGuard

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

    def before_copies(self) -> None:
        """In order already."""

    def before_readers(self) -> None:
        """In order already; only the host memory needs its guard."""
        self.guard.seal()

    def after_readers(self) -> None:
        """In order already."""


class DedicatedStreamOrdering:
    """Copies have a stream of their own. `guarded`: they wait for the last reader of the single device buffers.

    Without the guard a copy may overwrite a table that a forward in flight still reads; that is for hazard tests.
    """

    stream: StreamName = "copy"

    def __init__(self, device: Device, *, guarded: bool) -> None:
        self.guard = StepGuard(device, self.stream)
        self._device = device
        self._guarded = guarded
        self._last_reader: Event | None = None

    def before_copies(self) -> None:
        """Let the copy stream wait for the forward that still reads the buffers."""
        if self._last_reader is not None:
            self._device.stream_wait("copy", self._last_reader)

    def before_readers(self) -> None:
        """Let the compute stream wait for the copies."""
        self.guard.seal()
        self._device.stream_wait("compute", self._device.record("copy"))

    def after_readers(self) -> None:
        """Remember where the compute stream has read everything."""
        if self._guarded:
            self._last_reader = self._device.record("compute")


def make_copy_ordering(device: Device, stream: CopyStream, buffers: DeviceBuffers) -> CopyOrdering:
    """The ordering for the switches `copy_stream` and `device_buffers`."""
    if stream == "compute":
        return ComputeStreamOrdering(device)
    if stream == "dedicated":
        return DedicatedStreamOrdering(device, guarded=buffers != "single_unguarded")
    raise UsageError(f"copy_stream: unknown value {stream!r}; known are compute, dedicated")
