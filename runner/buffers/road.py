"""How a runner's host-to-device copies are set up: guards of sources, targets, and callbacks around them."""

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
    """Shared by all staged buffers of a runner.

    make_guard      makes what keeps the host from writing a source that a copy still reads: an event for each buffer
                    (EventGuard), or one StepGuard for all of them (`lambda *_: guard`)
    sets            the sets of device tensors that copies write to
    landing         where copies arrive before they are moved into those sets; None where they arrive there directly
    arrivals        callbacks for work on the copied data, made once the compute stream waits for the step's copies and
                    before anything else reads them
    apart           copies run on a stream of their own, at the same time as readers of their targets
    behind_readers  callbacks made behind the step's last reader of the device tensors, before they may be overwritten
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
