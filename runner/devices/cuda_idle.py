"""Small jobs for the time in which the host has to wait for the device anyway: reading events, writing rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Job = Callable[[int], int]
"""Does at most so many items of its work, and says how many it did; it never blocks."""
CHUNK = 4
"""Items between two looks at the event: 5-10 us of host time, which is what a wait may return late."""


class Pending(Protocol):
    """What one waits for."""

    def query(self) -> bool:
        """Whether it has fired."""
        ...


class IdleWork:
    """Jobs that take turns. The next wait goes on where the last one broke off, so that short waits serve all jobs."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._next = 0

    def add(self, job: Job) -> None:
        """One more job."""
        self._jobs.append(job)

    def until(self, pending: Pending) -> None:
        """Work until `pending` fires or nothing is left to do."""
        jobs, at, dry = self._jobs, self._next, 0
        while dry < len(jobs) and not pending.query():
            dry = 0 if jobs[at](CHUNK) else dry + 1
            at = (at + 1) % len(jobs)
        self._next = at

    def catch_up(self, limit: int) -> None:
        """Work now, whatever is waited for: too much was put off."""
        for job in self._jobs:
            job(limit)
