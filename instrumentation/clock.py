"""Host clocks. Whoever measures takes a clock from outside, so that a test can hand in one that it controls."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic host clock in integer nanoseconds."""

    clock_id: str

    def now_ns(self) -> int:
        """Time now, in ns."""
        ...

    def leave(self, name: str) -> int:
        """Time at the end of the range `name`, in ns; a declared clock first advances by that range's own cost."""
        ...


class MonotonicClock:
    """CLOCK_MONOTONIC of this process's host and time namespace."""

    clock_id = "host_monotonic"
    plain = True
    """`leave` is `now_ns`: who calls often may call that."""

    def __init__(self) -> None:
        self.now_ns = time.perf_counter_ns  # bound once: a wrapper would cost as much as the call

    def leave(self, name: str) -> int:
        """Time now; a measured clock does not care which range ends."""
        return self.now_ns()
