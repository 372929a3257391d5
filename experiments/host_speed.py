"""How fast this core is just now. On a shared machine it flips: all the host's work takes 1.8 times as long for tenths
of a second or for seconds (on two H200 machines; a neighbour on the sibling thread would do that).

A turn that such a phase falls into is compared with nothing of the other phase: before each turn the core is gauged by
a fixed piece of work, a slow one is given some milliseconds of rest (it may wake up on a better place), and each turn
keeps what the gauge said before and after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLOW = 1.15
"""From so many times the shortest gauge on, a core is slow."""
REST_S, RESTS = 0.003, 2
"""A slow core rests so long, so often at most; then the turn is taken anyway, and its gauge tells."""
_ENTRIES, _TRIES = 300, 3


def _gauged() -> int:
    """ns of a fixed piece of work: the shortest of three, for an interrupt is no phase."""
    shortest = 0
    for _ in range(_TRIES):
        begin = time.perf_counter_ns()
        entries: dict[int, tuple[int, str]] = {}
        for number in range(_ENTRIES):
            entries[number] = (number, str(number))
        took = time.perf_counter_ns() - begin
        shortest = min(shortest or took, took)
    return shortest


class HostSpeed:
    """The gauge of one process; what is fast is what has been fastest so far."""

    def __init__(self, gauge: Callable[[], int] = _gauged, sleep: Callable[[float], None] = time.sleep) -> None:
        self._gauge, self._sleep = gauge, sleep
        self._fastest_ns: int | None = None

    def gauge_ns(self) -> int:
        """How long the fixed piece of work takes now."""
        found = self._gauge()
        self._fastest_ns = found if self._fastest_ns is None else min(self._fastest_ns, found)
        return found

    def rested_ns(self) -> int:
        """The gauge, after as many rests as a slow core takes to be fast, or as it is given."""
        found = self.gauge_ns()
        for _ in range(RESTS):
            if found <= SLOW * (self._fastest_ns or found):
                break
            self._sleep(REST_S)
            found = self.gauge_ns()
        return found


OF_PROCESS = HostSpeed()
"""What was fastest is known from one launch's arms to the next."""
