"""The loop around the step: schedule, execute, update. It owns the feedback and the arrival of requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from ..instrumentation.clock import Clock
from ..workloads.requests import Request
from ..workloads.scheduler.scheduler import Scheduler
from ..workloads.step import StepDelta, StepResult


class Engine(Protocol):
    """The runner, as the loop sees it."""

    def execute(self, delta: StepDelta) -> StepResult:
        """Run one step."""
        ...


class LoopProbe(Protocol):
    """The part of a probe that the loop uses."""

    warmup: bool

    def range(self, name: str) -> AbstractContextManager[None]:
        """A range between steps."""
        ...


class LoopDevice(Protocol):
    """The part of a device that the loop uses."""

    clock: Clock

    def paused(self) -> AbstractContextManager[None]:
        """Stop a virtual clock for the block."""
        ...

    def idle_until(self, time_ns: int) -> None:
        """Nothing to do before `time_ns`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """When to stop measuring and what to do on the way.

    warmup_steps  steps whose rows carry `warmup`
    steps         measured steps; None: until every request is answered
    resets        numbers of the steps before which everything that runs is preempted
    """

    warmup_steps: int = 0
    steps: int | None = None
    resets: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """What the loop did. Tokens are counted over all requests that have arrived; `stopped` says why it ended."""

    stopped: Literal["answered", "steps", "interrupted"]
    num_steps: int
    num_measured: int
    num_requests: int
    num_arrived: int
    num_answered: int
    tokens_expected: int
    tokens_got: int


class StepLoop:
    """Feeds one engine from one scheduler with requests in the order of their arrival."""

    def __init__(self, scheduler: Scheduler, engine: Engine, probe: LoopProbe, device: LoopDevice) -> None:
        self._scheduler = scheduler
        self._engine = engine
        self._probe = probe
        self._device = device
        self._coming: deque[Request] = deque()
        self._missing: dict[str, int] = {}  # tokens that each unanswered request still gets
        self._start_ns = 0
        self._num_steps = 0
        self._num_requests = 0
        self._expected = 0
        self._got = 0

    def run(
        self,
        requests: Iterable[Request],
        limits: LoopLimits,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> LoopOutcome:
        """Run until `limits` or `interrupted` say so. `progress` hears (answered, all) after each step."""
        self._coming.extend(sorted(requests, key=lambda request: request.arrival_ns))
        self._num_requests = len(self._coming)
        self._start_ns = self._device.clock.now_ns()
        last = None if limits.steps is None else limits.warmup_steps + limits.steps
        while self._num_steps != last:
            if interrupted():
                return self._outcome("interrupted", limits)
            if not self._await_work():
                return self._outcome("answered", limits)
            self._probe.warmup = self._num_steps < limits.warmup_steps
            self._step(reset=self._num_steps in limits.resets)
            progress(self._num_requests - len(self._coming) - len(self._missing), self._num_requests)
        return self._outcome("steps", limits)

    def _await_work(self) -> bool:
        """Take what has arrived, or wait for it. False when every request is answered and the worker knows it."""
        self._admit_arrived()
        scheduler = self._scheduler
        if scheduler.has_unfinished() or scheduler.has_pending_finished():
            return True
        while self._coming and not scheduler.has_unfinished():
            self._device.idle_until(self._start_ns + self._coming[0].arrival_ns)
            self._admit_arrived()
        return scheduler.has_unfinished()

    def _admit_arrived(self) -> None:
        elapsed_ns = self._device.clock.now_ns() - self._start_ns
        while self._coming and self._coming[0].arrival_ns <= elapsed_ns:
            request = self._coming.popleft()
            with self._device.paused():  # a real engine's requests come with their tokens; ours are drawn here
                self._scheduler.add_request(request)
            tokens = min(request.output_len, self._scheduler.config.max_model_len - request.prompt_len)
            self._missing[request.req_id] = tokens
            self._expected += tokens

    def _step(self, *, reset: bool) -> None:
        if reset:
            self._scheduler.forced_reset()
        with self._probe.range("schedule"):
            delta = self._scheduler.schedule()
        result = self._engine.execute(delta)
        with self._probe.range("update_from_output"):
            self._scheduler.update(result)
        self._num_steps += 1
        for req_id, tokens in result.sampled.items():
            self._got += len(tokens)
            left = self._missing[req_id] - len(tokens)
            if left > 0:
                self._missing[req_id] = left
            else:
                del self._missing[req_id]

    def _outcome(self, stopped: Literal["answered", "steps", "interrupted"], limits: LoopLimits) -> LoopOutcome:
        arrived = self._num_requests - len(self._coming)
        return LoopOutcome(
            stopped,
            self._num_steps,
            max(0, self._num_steps - limits.warmup_steps),
            self._num_requests,
            arrived,
            arrived - len(self._missing),
            self._expected,
            self._got,
        )
