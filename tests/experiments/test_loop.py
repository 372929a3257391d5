"""The loop: arrivals in virtual time, feedback, warm-up, where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stepscope.experiments.loop import LoopLimits, LoopOutcome, StepLoop
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import SchedulerConfig
from stepscope.workloads.step import StepDelta, StepResult
from stepscope.workloads.workload import ForcedReset, Workload

STEP_NS = 1_000


class HandClock:
    clock_id = "hand"

    def __init__(self) -> None:
        self.time_ns = 5_000_000  # a clock does not start at 0

    def now_ns(self) -> int:
        return self.time_ns

    def leave(self, name: str) -> int:
        return self.time_ns


class HandDevice:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.jumps: list[int] = []

    @contextmanager
    def paused(self) -> Iterator[None]:
        yield

    def idle_until(self, time_ns: int) -> None:
        self.jumps.append(time_ns - 5_000_000)
        self.clock.time_ns = max(self.clock.time_ns, time_ns)


@dataclass
class HandRange:
    name: str
    entered: list[str]

    def __enter__(self) -> None:
        self.entered.append(self.name)

    def __exit__(self, *error: object) -> None:
        pass


class HandProbe:
    def __init__(self) -> None:
        self.warmup = False
        self.ranges: list[str] = []

    def range(self, name: str) -> HandRange:
        return HandRange(name, self.ranges)

    def timed(self, name, function):
        def call(*values):
            with self.range(name):
                return function(*values)

        return call


@dataclass
class Done:
    answer: StepResult

    def result(self) -> StepResult:
        return self.answer


class CountingEngine:
    """Answers token 7 for every request whose history is covered; each step takes STEP_NS."""

    def __init__(self, device: HandDevice, probe: HandProbe) -> None:
        self.device, self.probe = device, probe
        self.known: dict[str, int] = {}
        self.computed: dict[str, int] = {}
        self.deltas: list[StepDelta] = []
        self.warmups: list[bool] = []

    def submit(self, delta: StepDelta) -> Done:
        self.deltas.append(delta)
        self.warmups.append(self.probe.warmup)
        self.device.clock.time_ns += STEP_NS
        for new in delta.new_requests:
            self.known[new.req_id], self.computed[new.req_id] = len(new.prompt_token_ids), new.num_computed_tokens
        cached = delta.cached
        for index, req_id in enumerate(cached.req_ids):
            self.computed[req_id] = cached.num_computed_tokens[index]
        sampled: dict[str, tuple[int, ...]] = {}
        for req_id, count in delta.num_scheduled_tokens.items():
            if self.computed[req_id] + count == self.known[req_id]:
                sampled[req_id] = (7,)
                self.known[req_id] += 1
        return Done(StepResult(delta.step, sampled))


def request(name: str, prompt: int, output: int, arrival_ns: int = 0) -> Request:
    return Request(name, prompt, output, vocab_size=100, arrival_ns=arrival_ns)


CONFIG = SchedulerConfig(max_num_batched_tokens=8, max_num_seqs=4, block_size=4, num_blocks=64, max_model_len=32)


def run(
    requests: list[Request],
    limits: LoopLimits | None = None,
    *,
    stop_after: int | None = None,
    reset_before: int | None = None,
    concurrency: int | None = None,
) -> tuple[LoopOutcome, CountingEngine]:
    device, probe = HandDevice(), HandProbe()
    engine = CountingEngine(device, probe)
    events = () if reset_before is None else (ForcedReset(reset_before),)
    workload = Workload(
        name="by hand", requests=tuple(requests), scheduler=CONFIG, events=events, max_concurrency=concurrency
    )
    outcome = StepLoop(workload, engine, probe, device).run(
        limits or LoopLimits(), interrupted=lambda: len(engine.deltas) == stop_after
    )
    return outcome, engine


def test_every_request_is_answered_in_full_and_the_worker_is_told() -> None:
    outcome, engine = run([request("a", 5, 3), request("b", 9, 2)])
    assert outcome == LoopOutcome("answered", 4, 4, 2, 2, 5, 5)
    assert [dict(delta.num_scheduled_tokens) for delta in engine.deltas] == [
        {"a": 5, "b": 3},
        {"a": 1, "b": 6},
        {"a": 1, "b": 1},
        {},
    ]
    assert engine.deltas[-1].finished_req_ids == {"a", "b"}
    assert engine.probe.ranges == ["schedule", "update_from_output"] * outcome.num_steps


def test_an_answer_is_cut_at_max_model_len_and_so_is_what_is_expected() -> None:
    outcome, _ = run([request("long", 30, 10)])
    assert (outcome.tokens_expected, outcome.tokens_got, outcome.num_answered) == (2, 2, 1)


def test_requests_arrive_in_virtual_time_and_idle_time_is_jumped_over() -> None:
    # GIVEN one request at once, one in the middle of its decoding, one long after everything else
    requests = [request("now", 2, 4), request("soon", 2, 1, STEP_NS + 1), request("late", 2, 1, 1_000_000)]
    outcome, engine = run(requests)
    # THEN "soon" enters in the step after the clock has passed its arrival, and nobody waits except for "late"
    assert [sorted(delta.num_scheduled_tokens) for delta in engine.deltas[:4]] == [
        ["now"],
        ["now"],
        ["now", "soon"],
        ["now"],
    ]
    assert engine.device.jumps == [1_000_000]
    assert outcome.num_answered == 3


def test_warm_up_is_marked_and_the_measured_steps_are_counted() -> None:
    outcome, engine = run([request("a", 5, 20)], LoopLimits(warmup_steps=2, steps=3))
    assert engine.warmups == [True, True, False, False, False]
    assert (outcome.stopped, outcome.num_steps, outcome.num_measured, outcome.num_answered) == ("steps", 5, 3, 0)


def test_an_interrupt_ends_between_steps() -> None:
    outcome, engine = run([request("a", 5, 20)], stop_after=4)
    assert (outcome.stopped, outcome.num_steps, len(engine.deltas)) == ("interrupted", 4, 4)


def test_a_forced_reset_preempts_what_runs() -> None:
    _, engine = run([request("a", 5, 4)], reset_before=2)
    assert [delta.preempted_req_ids for delta in engine.deltas[:4]] == [(), (), ("a",), ()]
    assert dict(engine.deltas[2].num_scheduled_tokens) == {"a": 7}


def test_a_closed_loop_lets_the_next_request_in_when_one_is_answered() -> None:
    _, engine = run([request("a", 2, 2), request("b", 2, 1), request("c", 2, 1)], concurrency=1)
    assert [sorted(delta.num_scheduled_tokens) for delta in engine.deltas] == [["a"], ["a"], ["b"], ["c"], []]
