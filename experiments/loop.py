"""The loop around the step: schedule, execute, update. It owns the feedback and the arrival of requests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from ..instrumentation.clock import Clock
from ..workloads.scheduler import Scheduler
from ..workloads.step import StepDelta, StepResult
from ..workloads.workload import RequestFeed, Workload


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
    """When measuring begins and ends: `warmup_steps` steps carry `warmup`, then `steps` are measured (None: all)."""

    warmup_steps: int = 0
    steps: int | None = None


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
    """Feeds one engine from one scheduler with one workload's requests, in the order of their arrival."""

    def __init__(self, workload: Workload, engine: Engine, probe: LoopProbe, device: LoopDevice) -> None:
        self._scheduler = Scheduler(workload.scheduler)
        self._feed = RequestFeed(workload)
        self._resets = frozenset(event.step for event in workload.events)
        self._engine = engine
        self._probe = probe
        self._device = device
        self._missing: dict[str, int] = {}  # tokens that each unanswered request still gets
        self._num_requests = len(workload.requests)
        self._num_arrived = 0
        self._num_steps = 0
        self._start_ns = 0
        self._elapsed_ns = 0  # of earlier calls of `run`; between two calls no time passes for the requests
        self._expected = 0
        self._got = 0

    @property
    def num_steps(self) -> int:
        """Steps so far."""
        return self._num_steps

    def run(
        self,
        limits: LoopLimits,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> LoopOutcome:
        """Run until `limits` or `interrupted` say so; again: go on. Limits count from the first step of all.

        `progress` hears (answered, all) after each step.
        """
        self._start_ns = self._device.clock.now_ns() - self._elapsed_ns
        try:
            return self._run(limits, interrupted, progress)
        finally:
            self._elapsed_ns = self._device.clock.now_ns() - self._start_ns

    def _run(
        self, limits: LoopLimits, interrupted: Callable[[], bool], progress: Callable[[int, int], None]
    ) -> LoopOutcome:
        last = None if limits.steps is None else limits.warmup_steps + limits.steps
        while self._num_steps != last:
            if interrupted():
                return self._outcome("interrupted", limits)
            if not self._await_work():
                return self._outcome("answered", limits)
            self._probe.warmup = self._num_steps < limits.warmup_steps
            self._step()
            progress(self._num_arrived - len(self._missing), self._num_requests)
        return self._outcome("steps", limits)

    def _await_work(self) -> bool:
        """Take what has arrived, or wait for it. False when every request is answered and the worker knows it."""
        self._admit_arrived()
        scheduler = self._scheduler
        if scheduler.has_unfinished() or scheduler.has_pending_finished():
            return True
        while not scheduler.has_unfinished():
            arrival_ns = self._feed.next_arrival_ns
            if arrival_ns is None:
                return False
            with self._probe.range("await_requests"):  # or an idle engine would look like a slow host
                self._device.idle_until(self._start_ns + arrival_ns)
            self._admit_arrived()
        return True

    def _admit_arrived(self) -> None:
        elapsed_ns = self._device.clock.now_ns() - self._start_ns
        arrived = self._feed.take(elapsed_ns, len(self._missing))
        if not arrived:
            return
        with self._device.paused():  # a real engine's requests come with their tokens; ours are drawn when added
            for request in arrived:
                self._scheduler.add_request(request)
        self._num_arrived += len(arrived)
        for request in arrived:
            tokens = min(request.output_len, self._scheduler.config.max_model_len - request.prompt_len)
            self._missing[request.req_id] = tokens
            self._expected += tokens

    def _step(self) -> None:
        if self._num_steps in self._resets:
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
        return LoopOutcome(
            stopped,
            self._num_steps,
            max(0, self._num_steps - limits.warmup_steps),
            self._num_requests,
            self._num_arrived,
            self._num_arrived - len(self._missing),
            self._expected,
            self._got,
        )
