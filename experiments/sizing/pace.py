"""Requests that arrive in modelled time: whatever runs them, and however fast, runs the same steps."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ...instrumentation.clock import Clock
from ...workloads.driver import StepTime
from ...workloads.step import StepDelta
from ..loop import Engine, LoopDevice, Pending


class PaceClock:
    """A clock that moves when a step is submitted, or when nothing is to be done before a time."""

    clock_id = "modelled_pace"

    def __init__(self) -> None:
        self._now_ns = 0

    def now_ns(self) -> int:
        """Time since the first step, ns."""
        return self._now_ns

    def leave(self, name: str) -> int:
        """Time now; ranges take none."""
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        """A step took that long."""
        self._now_ns += duration_ns

    def jump_to(self, time_ns: int) -> None:
        """Nothing happens before."""
        self._now_ns = max(self._now_ns, time_ns)


class Pace:
    """Stands for the device where the loop asks what time it is, and for the engine where it submits a step."""

    def __init__(self, engine: Engine, device: LoopDevice, step_time: StepTime) -> None:
        self._time = PaceClock()
        self.clock: Clock = self._time
        self._engine = engine
        self._device = device
        self._step_time = step_time

    def submit(self, delta: StepDelta) -> Pending:
        """See Engine."""
        self._time.advance(self._step_time(delta))
        return self._engine.submit(delta)

    def paused(self) -> AbstractContextManager[None]:
        """See LoopDevice."""
        return self._device.paused()

    def idle_until(self, time_ns: int) -> None:
        """See LoopDevice."""
        self._time.jump_to(time_ns)
