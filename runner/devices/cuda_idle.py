"""Small jobs for the time in which the host has to wait for the device anyway: reading events, writing rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Job = Callable[[int], int]
"""Does at most so many items of its work, and says how many it did; it never blocks."""
CHUNK = 4
"""Items between two looks at the event: 5-10 us of host time, which is what a wait may return late."""
SHORT_NS = 50_000
"""A wait that is not expected to last longer is left alone: returning late would cost more than the work is worth.

In 25 to 50 us there would be time for one chunk, or the next wait that is shorter returns late for it. A host-bound
step records ten stamps and notes as many rows: one chunk of four does not keep up, so as much is put off in the end.
"""


EVERYTHING = 1 << 62


class Pending(Protocol):
    """What one waits for."""

    def query(self) -> bool:
        """Whether it has fired."""
        ...

    def synchronize(self) -> None:
        """Block until it has fired."""
        ...


class IdleWork:
    """Jobs that take turns. The next wait goes on where the last one broke off, so that short waits serve all jobs.

    A wait is expected to last as long as the last one for the same reason did, and jobs begin in its first half only.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now = now_ns
        self._jobs: list[Job] = []
        self._next = 0
        self._lasted: dict[str, int] = {}

    def add(self, job: Job) -> None:
        """One more job."""
        self._jobs.append(job)

    def wait(self, pending: Pending, reason: str) -> None:
        """Block until `pending` has fired, at work as long as that is not in the way."""
        call_ns = self._now()
        expected_ns = self._lasted.get(reason, 0)
        if expected_ns >= SHORT_NS:
            self._work(pending, call_ns + expected_ns // 2)
        pending.synchronize()
        self._lasted[reason] = self._now() - call_ns

    def _work(self, pending: Pending, until_ns: int) -> None:
        """Until `pending` fires, the time is over, or nothing is left to do."""
        jobs, at, dry = self._jobs, self._next, 0
        while dry < len(jobs) and not pending.query() and self._now() < until_ns:
            dry = 0 if jobs[at](CHUNK) else dry + 1
            at = (at + 1) % len(jobs)
        self._next = at

    def catch_up(self, limit: int = EVERYTHING) -> None:
        """Work now, whatever is waited for: too much was put off, or somebody wants to read."""
        for job in self._jobs:
            job(limit)
