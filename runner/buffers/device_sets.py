"""How many equal sets of device buffers a runner has, and which of them the step fills."""

from __future__ import annotations

from ..config import DeviceBuffers
from ..devices.base import Event

COUNTS: dict[DeviceBuffers, int] = {"double": 2}
"""Sets by the switch `device_buffers`; one where it is not named."""


class DeviceSets:
    """`count` sets used in turn; `current` is the step's. All buffers of a runner share one object.

    With two sets a copy may land in one while a forward in flight reads the other. Before the first `advance` the last
    set is current, so that the first step fills set 0.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.current = count - 1
        self.readers: list[Event | None] = [None] * count
        """Behind the last operation that reads each set; None where nobody has, or where copies are in order anyway."""
        self.exposed = False
        """Whether the step's copies may overwrite the current set while it is read: nothing orders them behind that."""

    def advance(self) -> None:
        """The next step begins."""
        self.current = (self.current + 1) % self.count
