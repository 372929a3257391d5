"""A workload: requests, the limits of the scheduler that serves them, and what happens to it on the way."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from .requests import Request
from .scheduler import SchedulerConfig


@dataclass(frozen=True, slots=True)
class ForcedReset:
    """Before step `step` is scheduled, everything that runs is preempted and all cached prefixes are dropped."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one run serves, fully determined by its parameters and its seed.

    requests         in order of arrival
    events           in order of step
    queue_depth      steps that may be scheduled before the first one's tokens are back (see `steps_in_flight`)
    max_concurrency  closed loop: at most so many unfinished requests; None is open
    settle_steps     steps until the regime is reached (the batch filled); None where there is no such point
    regime_steps     steps of the regime from there on, while the batch is as the regime wants it; None likewise
    parameters       what it was built from, for the record
    notes            what a reader of its figures should know, e.g. the source of a trace, its skipped rows
    """

    name: str
    requests: tuple[Request, ...]
    scheduler: SchedulerConfig
    events: tuple[ForcedReset, ...] = ()
    queue_depth: int = 1
    max_concurrency: int | None = None
    settle_steps: int | None = None
    regime_steps: int | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def steps_in_flight(self) -> int:
        """How many steps may be in flight: two where requests are scheduled ahead of their tokens."""
        return max(self.queue_depth, 2 if self.scheduler.async_scheduling else 1)


class RequestFeed:
    """Hands out a workload's requests as time goes on and, in a closed loop, as answers come back."""

    def __init__(self, workload: Workload) -> None:
        self._pending = deque(workload.requests)
        self._limit = workload.max_concurrency

    @property
    def exhausted(self) -> bool:
        """No request is left to hand out."""
        return not self._pending

    @property
    def next_arrival_ns(self) -> int | None:
        """When the next request arrives; None when there is none."""
        return self._pending[0].arrival_ns if self._pending else None

    def take(self, now_ns: int, num_unfinished: int) -> list[Request]:
        """Requests that have arrived by `now_ns`, at most up to the concurrency limit."""
        taken: list[Request] = []
        while self._pending and self._pending[0].arrival_ns <= now_ns:
            if self._limit is not None and num_unfinished + len(taken) >= self._limit:
                break
            taken.append(self._pending.popleft())
        return taken
