"""The road of a runner's copies: what guards their sources, which device buffers they reach, and what they set off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..devices.base import Device, StreamName
from .device_sets import DeviceSets
from .guards import EventGuard, Guard
from .landing import Landing

MakeGuard = Callable[[Device, StreamName], Guard]


@dataclass(frozen=True, slots=True)
class Road:
    """One object for all buffers of a runner.

    make_guard   EventGuard: an event a buffer; give out one StepGuard for all (`lambda *_: guard`) to share it
    sets         of device tensors
    landing      where copies arrive before they are moved to those; None where they arrive there at once
    arrivals     called where the compute stream has been made to wait for the step's copies, before any other reader:
                 what has to happen to the copied data on the device
    apart        copies run beside what reads their targets, on a stream of their own
    behind_readers  called behind the step's last reader of the device tensors, before anybody may overwrite them
    """

    make_guard: MakeGuard = EventGuard
    sets: DeviceSets = field(default_factory=DeviceSets)
    landing: Landing | None = None
    arrivals: list[Callable[[], None]] = field(default_factory=list)
    apart: bool = False
    behind_readers: list[Callable[[], None]] = field(default_factory=list)

    def arrived(self) -> None:
        """The compute stream waits for everything copied so far."""
        if self.landing is not None:
            self.landing.move()
        for arrival in self.arrivals:
            arrival()

    def read(self) -> None:
        """Whatever reads the step's device tensors was enqueued."""
        for look in self.behind_readers:
            look()
