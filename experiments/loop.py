"""The loop around the step: schedule, execute, update. It owns the feedback and the arrival of requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from ..instrumentation.clock import Clock
from ..instrumentation.probe.api import F
from ..workloads.scheduler import Scheduler
from ..workloads.step import StepDelta, StepResult
from ..workloads.workload import RequestFeed, Workload


class Pending(Protocol):
    """A step that was submitted."""

    def result(self) -> StepResult:
        """Wait for its tokens."""
        ...


class Engine(Protocol):
    """The runner, as the loop sees it."""

    def submit(self, delta: StepDelta) -> Pending:
        """Enqueue one step."""
        ...


class LoopProbe(Protocol):
    """The part of a probe that the loop uses."""

    warmup: bool

    def range(self, name: str) -> AbstractContextManager[None]:
        """A range between steps."""
        ...

    def timed(self, name: str, function: F) -> F:
        """A function, each call of which is a range."""
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


Stopped = Literal["answered", "steps", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """When measuring begins and ends: `warmup_steps` steps carry `warmup`, then `steps` are measured (None: all).

    Of these the ones numbered in `uncounted` carry `warmup` too: something else was tried in them.
    """

    warmup_steps: int = 0
    steps: int | None = None
    uncounted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """What the loop did; `stopped` says why it ended. Tokens are counted over all requests that have arrived; what a
    stop token cut off is not expected any more.
    """

    stopped: Stopped
    num_steps: int
    num_measured: int
    num_requests: int
    num_answered: int
    tokens_expected: int
    tokens_got: int


class StepLoop:
    """Feeds one engine from one scheduler with one workload's requests, in the order of their arrival.

    With a queue of two steps the next one is scheduled and submitted before anybody waits for the tokens of the one
    before.
    """

    def __init__(self, workload: Workload, engine: Engine, probe: LoopProbe, device: LoopDevice) -> None:
        self._scheduler = Scheduler(workload.scheduler)
        self._feed = RequestFeed(workload)
        self._resets = frozenset(event.step for event in workload.events)
        self._engine = engine
        self._depth = workload.steps_in_flight
        self._in_flight: deque[Pending] = deque()
        self._probe = probe
        self._schedule = probe.timed("schedule", self._scheduler.schedule)
        self._update = probe.timed("update_from_output", self._scheduler.update)
        self._device = device
        self._unanswered: set[str] = set()
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
        drain: bool = True,
    ) -> LoopOutcome:
        """Run until `limits` or `interrupted` say so; again: go on. Limits count from the first step of all.

        `progress` hears (answered, all) after each step. Steps in flight at the end are collected, unless `drain` is
        False: then the next call goes on as if there had been no pause.
        """
        self._start_ns = self._device.clock.now_ns() - self._elapsed_ns
        try:
            stopped = self._run(limits, interrupted, progress)
            while drain and self._in_flight:
                self._collect()
            return self._outcome(stopped, limits)
        finally:
            self._elapsed_ns = self._device.clock.now_ns() - self._start_ns

    def _run(
        self, limits: LoopLimits, interrupted: Callable[[], bool], progress: Callable[[int, int], None]
    ) -> Stopped:
        last = None if limits.steps is None else limits.warmup_steps + limits.steps
        while self._num_steps != last:
            if interrupted():
                return "interrupted"
            if not self._await_work():
                return "answered"
            self._probe.warmup = self._num_steps < limits.warmup_steps or self._num_steps in limits.uncounted
            self._step()
            progress(self._num_arrived - len(self._unanswered), self._num_requests)
        return "steps"

    def _await_work(self) -> bool:
        """Take what has arrived, or wait for it. False when every request is answered and the worker knows it."""
        self._admit_arrived()
        scheduler = self._scheduler
        while self._in_flight and not scheduler.has_work():  # everybody waits for a token
            self._collect()
            self._admit_arrived()
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
        arrived = self._feed.take(elapsed_ns, len(self._unanswered))
        if not arrived:
            return
        with self._device.paused():  # a real engine's requests come with their tokens; ours are drawn when added
            for request in arrived:
                self._scheduler.add_request(request)
        self._num_arrived += len(arrived)
        for request in arrived:
            tokens = min(request.output_len, self._scheduler.config.max_model_len - request.prompt_len)
            self._unanswered.add(request.req_id)
            self._expected += tokens

    def _step(self) -> None:
        if self._num_steps in self._resets:
            self._scheduler.forced_reset()
        self._in_flight.append(self._engine.submit(self._schedule()))
        self._num_steps += 1
        if len(self._in_flight) >= self._depth:
            self._collect()

    def _collect(self) -> None:
        """Take in the tokens of the oldest step in flight."""
        result = self._in_flight.popleft().result()
        taken = self._update(result)
        self._got += sum(map(len, taken.values()))
        for req_id, unused in self._scheduler.ended.items():
            self._unanswered.discard(req_id)
            self._expected -= unused

    def _outcome(self, stopped: Stopped, limits: LoopLimits) -> LoopOutcome:
        return LoopOutcome(
            stopped,
            self._num_steps,
            max(0, self._num_steps - limits.warmup_steps) - sum(at < self._num_steps for at in limits.uncounted),
            self._num_requests,
            self._num_arrived - len(self._unanswered),
            self._expected,
            self._got,
        )
