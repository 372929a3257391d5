"""Host clocks of the `sim` device: measured Python time that can be stopped, or declared time that is exact.

`with clock:` stops it for the block; blocks nest. The clock itself is the context manager because this stands around
every device call: what lies between the call and the stop is counted as host time.
"""

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

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None: ...

    def advance(self, duration_ns: int) -> None:
        """Charge the host `duration_ns`, stopped or not."""
        ...

    def jump_to(self, time_ns: int) -> None:
        """Go forward to `time_ns`; nothing happens when that has passed."""
        ...


class MeasuredSimClock:
    """Real elapsed time, less what passed while stopped, plus what was charged. Starts at the time of its making.

    `source` is the real clock underneath, in ns.
    """

    clock_id = "sim_host_measured"

    def __init__(self, source: Callable[[], int] = perf_counter_ns) -> None:
        self._source = source
        self._lead_ns = 0  # virtual minus real, while running
        self._frozen_ns = 0  # virtual, while stopped
        self._depth = 0

    def now_ns(self) -> int:
        """Virtual host time, in ns."""
        return self._frozen_ns if self._depth else self._source() + self._lead_ns

    def leave(self, name: str) -> int:
        """Time now; a measured clock does not care which range ends."""
        return self.now_ns()

    def __enter__(self) -> None:
        if not self._depth:
            self._frozen_ns = self._source() + self._lead_ns
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._lead_ns = self._frozen_ns - self._source()

    def advance(self, duration_ns: int) -> None:
        """Charge the host `duration_ns`, stopped or not."""
        if self._depth:
            self._frozen_ns += duration_ns
        else:
            self._lead_ns += duration_ns

    def jump_to(self, time_ns: int) -> None:
        """Go forward to `time_ns`; nothing happens when that has passed."""
        self.advance(max(0, time_ns - self.now_ns()))


class DeclaredClock:
    """Time moves by declared costs only: a range's own cost when it is left, and what device calls are charged.

    `costs` maps range and phase names to ns; names that it does not hold cost 0. While stopped, leaving is free.
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

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._depth -= 1

    def advance(self, duration_ns: int) -> None:
        """Charge the host `duration_ns`, stopped or not."""
        self._now_ns += duration_ns

    def jump_to(self, time_ns: int) -> None:
        """Go forward to `time_ns`; nothing happens when that has passed."""
        self._now_ns = max(self._now_ns, time_ns)


@dataclass(frozen=True, slots=True)
class DeclaredHost:
    """Asks the `sim` device for declared host times: ns by range name, and where the clock starts."""

    costs_ns: Mapping[str, int] = field(default_factory=dict)
    start_ns: int = 0
