"""A scheduler with a made-up worker that verifies drafts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig
from stepscope.workloads.step import StepDelta, StepResult

Accept = Callable[[int], int]
"""Step -> how many drafts each row accepts, if it has so many."""


class Drafting:
    """A scheduler and a made-up worker that verifies drafts; it schedules `depth` steps before the first comes back."""

    def __init__(self, k: int, accept: Accept, depth: int = 1, **limits: object) -> None:
        self.k, self.accept, self.depth = k, accept, depth
        self.scheduler = Scheduler(
            SchedulerConfig(num_speculative_tokens=k, async_scheduling=depth > 1, **limits)  # type: ignore[arg-type]
        )
        self.deltas: list[StepDelta] = []
        self.taken: dict[str, list[int]] = {}
        self.waiting: deque[StepResult] = deque()

    def add(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.scheduler.add_request(request)

    def schedule(self) -> StepDelta:
        delta = self.scheduler.schedule()
        self.deltas.append(delta)
        sampled = {}
        for name in self.scheduler.covered(delta):
            drafts = delta.scheduled_spec_decode_tokens.get(name, ())
            sampled[name] = (7,) * (min(self.accept(delta.step), len(drafts)) + 1)
        drafts = {} if self.depth > 1 else dict.fromkeys(sampled, (5,) * self.k)
        self.waiting.append(StepResult(delta.step, sampled, drafts))
        return delta

    def deliver(self) -> None:
        for name, tokens in self.scheduler.update(self.waiting.popleft()).items():
            self.taken.setdefault(name, []).extend(tokens)

    def step(self) -> StepDelta:
        delta = self.schedule()
        if len(self.waiting) == self.depth:
            self.deliver()
        return delta

    def drain(self, most: int = 3000) -> list[StepDelta]:
        while self.scheduler.has_unfinished() or self.scheduler.has_pending_finished():
            assert len(self.deltas) < most
            self.step()
        return self.deltas
