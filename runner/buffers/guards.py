"""What keeps a writer away from pinned memory while a copy in flight may still read it."""

from __future__ import annotations

from typing import Protocol

from ..devices.base import Device, Event, StreamName


class Guarded(Protocol):
    """What a guard needs to know of a slot: its last copy, and the event behind it."""

    copy: int
    event: Event | None


class Guard(Protocol):
    """Called around each reuse of a slot."""

    def protect(self, slot: Guarded) -> None:
        """A copy from `slot` was just enqueued."""
        ...

    def wait(self, slot: Guarded, reason: str) -> int:
        """Return when the slot's copy is known to have ended. Returns the ns that the host waited."""
        ...


class EventGuard:
    """An event behind each copy. A slot whose copy the host has seen ended by other means costs no wait."""

    def __init__(self, device: Device, stream: StreamName) -> None:
        self._device = device
        self._stream = stream

    def protect(self, slot: Guarded) -> None:
        """Record an event behind the copy."""
        slot.event = self._device.record(self._stream)

    def wait(self, slot: Guarded, reason: str) -> int:
        """Wait for that event, if anything is left to wait for."""
        return _wait(self._device, slot, reason)


class StepGuard:
    """One event for all copies of a step on one stream, shared by its buffers: `seal` records it behind the last copy.

    Saves an event record a buffer. A slot that is wanted back before anybody sealed is sealed then, and waits for
    everything enqueued up to that moment.
    """

    def __init__(self, device: Device, stream: StreamName) -> None:
        self._device = device
        self._stream = stream
        self._open: list[Guarded] = []

    def protect(self, slot: Guarded) -> None:
        """Remember the copy until `seal`."""
        slot.event = None
        self._open.append(slot)

    def seal(self) -> None:
        """Record the event of all copies since the last seal."""
        if not self._open:
            return
        event = self._device.record(self._stream)
        for slot in self._open:
            slot.event = event
        self._open.clear()

    def wait(self, slot: Guarded, reason: str) -> int:
        """Wait for the event of the slot's step, if anything is left to wait for."""
        if slot.event is None and not self._device.host_has_seen(slot.copy):
            self.seal()
        return _wait(self._device, slot, reason)


class NoGuard:
    """Nothing is kept away from anything. Hazard tests construct it; no switch leads here."""

    def protect(self, slot: Guarded) -> None:
        """Nothing."""

    def wait(self, slot: Guarded, reason: str) -> int:
        """Nothing."""
        return 0


def _wait(device: Device, slot: Guarded, reason: str) -> int:
    if slot.event is None or device.host_has_seen(slot.copy):
        return 0
    start_ns = device.clock.now_ns()
    device.host_wait(slot.event, reason)
    return device.clock.now_ns() - start_ns
