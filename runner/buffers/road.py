"""The road of a runner's copies: what guards their sources, and which device buffers they reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..devices.base import Device, StreamName
from .device_sets import DeviceSets
from .guards import EventGuard, Guard

MakeGuard = Callable[[Device, StreamName], Guard]


@dataclass(frozen=True, slots=True)
class Road:
    """One object for all buffers of a runner.

    make_guard   EventGuard: an event a buffer; give out one StepGuard for all (`lambda *_: guard`) to share it
    sets         of device tensors
    """

    make_guard: MakeGuard = EventGuard
    sets: DeviceSets = field(default_factory=DeviceSets)
