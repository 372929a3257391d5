"""Host clocks of the `sim` device: measured Python time that can be stopped, or declared time that is exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from types import TracebackType
from typing import Protocol


class SimClock(Protocol):
    """A host clock whose time the device moves: on by the cost of its calls, not at all while it computes."""

    clock_id: str

    def now_ns(self) -> int:
        """Virtual host time, in ns."""
        ...

    def leave(self, name: str) -> int:
        """Time at the end of the range `name`; see instrumentation.clock.Clock."""
        ...

    def pause(self) -> None:
        """Stop measured time; calls nest."""
        ...

    def resume(self) -> None:
        """Undo one pause."""
        ...

    def advance(self, duration_ns: int) -> None:
        """Charge the host `duration_ns`, paused or not."""
        ...

    def jump_to(self, time_ns: int) -> None:
        """Go forward to `time_ns`; nothing happens when that has passed."""
        ...


class MeasuredSimClock:
    """Real elapsed time, less what passed while paused, plus what was charged. Starts at the time of its making.

    `source` is the real clock underneath, in ns.
    """

    clock_id = "sim_host_measured"

    def __init__(self, source: Callable[[], int] = perf_counter_ns) -> None:
        self._source = source
        self._lead_ns = 0  # virtual minus real, while running
        self._frozen_ns = 0  # virtual, while paused
        self._depth = 0

    def now_ns(self) -> int:
        """Virtual host time, in ns."""
        return self._frozen_ns if self._depth else self._source() + self._lead_ns

    def leave(self, name: str) -> int:
        """Time now; a measured clock does not care which range ends."""
        return self.now_ns()

    def pause(self) -> None:
        """Stop measured time; calls nest."""
        self._frozen_ns = self.now_ns()
        self._depth += 1

    def resume(self) -> None:
        """Undo one pause."""
        assert self._depth > 0, "resume without pause"
        self._depth -= 1
        if not self._depth:
            self._lead_ns = self._frozen_ns - self._source()

    def advance(self, duration_ns: int) -> None:
        """Charge the host `duration_ns`, paused or not."""
        if self._depth:
            self._frozen_ns += duration_ns
        else:
            self._lead_ns += duration_ns

    def jump_to(self, time_ns: int) -> None:
        """Go forward to `time_ns`; nothing happens when that has passed."""
        self.advance(max(0, time_ns - self.now_ns()))


class DeclaredClock:
    """Time moves by declared costs only: a range's own cost when it is left, and what device calls are charged.

    `costs` maps range and phase names to ns; names that it does not hold cost 0. While paused, leaving a range is free.
    """

    clock_id = "sim_host_declared"

    def __init__(self, costs: Mapping[str, int], start_ns: int = 0) -> None:
        self._costs = dict(costs)
        self._now_ns = start_ns
        self._depth = 0

    def now_ns(self) -> int:
        """Virtual host time, in ns."""
        return self._now_ns

    def leave(self, name: str) -> int:
        """Advance by the declared cost of `name`, then tell the time."""
        if not self._depth:
            self._now_ns += self._costs.get(name, 0)
        return self._now_ns

    def pause(self) -> None:
        """Make ranges free until resumed; calls nest."""
        self._depth += 1

    def resume(self) -> None:
        """Undo one pause."""
        assert self._depth > 0, "resume without pause"
        self._depth -= 1

    def advance(self, duration_ns: int) -> None:
        """Charge the host `duration_ns`, paused or not."""
        self._now_ns += duration_ns

    def jump_to(self, time_ns: int) -> None:
        """Go forward to `time_ns`; nothing happens when that has passed."""
        self._now_ns = max(self._now_ns, time_ns)


@dataclass(frozen=True, slots=True)
class DeclaredHost:
    """Asks the `sim` device for declared host times: ns by range name, and where the clock starts."""

    costs_ns: Mapping[str, int] = field(default_factory=dict)
    start_ns: int = 0


class Pause:
    """`with Pause(clock):` stops the clock for the block. Holds nothing of its own: reusable and nestable."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        self._clock.pause()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._clock.resume()
