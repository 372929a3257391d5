"""Workloads from generators and traces, the feed that hands requests out, and the dry run over both."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.workloads.driver import dry_run
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import SchedulerConfig
from stepscope.workloads.step import StepDelta
from stepscope.workloads.synthetic import Synthetic, synthetic_workload, trace_workload
from stepscope.workloads.traces import ReplayOptions, read_trace
from stepscope.workloads.workload import RequestFeed, Workload


def settings(**changes: object) -> Synthetic:
    spec = {
        "num_requests": 60,
        "prompt": {"kind": "uniform", "low": 4, "high": 60},
        "output": {"kind": "zipf", "theta": 1.0, "min": 1, "max": 20},
        "arrivals": {"kind": "poisson", "rate": 50.0},
    }
    return msgspec.convert({**spec, **changes}, Synthetic)


def made(**changes: object) -> Workload:
    return synthetic_workload(settings(**changes), SchedulerConfig(), seed=1, vocab_size=100)


def step_time_ns(delta: StepDelta) -> int:
    """Assumed for replays without a machine: 4 ms + 0.03 ms a token + 0.01 ms a request."""
    return 4_000_000 + 30_000 * delta.total_num_scheduled_tokens + 10_000 * len(delta.num_scheduled_tokens)


def test_every_property_has_a_stream_of_its_own() -> None:
    # GIVEN workloads that differ in one setting
    plain, longer = made(), made(output={"kind": "fixed", "value": 9})
    # THEN everything else is drawn as before
    assert [r.prompt_len for r in plain.requests] == [r.prompt_len for r in longer.requests]
    assert [r.arrival_ns for r in plain.requests] == [r.arrival_ns for r in longer.requests]
    assert plain == made()


def test_lengths_are_drawn_independently() -> None:
    workload = made(num_requests=2000, output={"kind": "uniform", "low": 4, "high": 60})
    prompts = [request.prompt_len for request in workload.requests]
    outputs = [request.output_len for request in workload.requests]
    assert abs(np.corrcoef(prompts, outputs)[0, 1]) < 0.06


def test_shared_prefixes_are_shared_and_the_rest_is_not() -> None:
    shared = {"num_prefixes": 2, "prefix_len": 16}
    workload = made(shared_prefix=shared, prompt={"kind": "uniform", "low": 8, "high": 80})
    prompts = [request.prompt_token_ids() for request in workload.requests]
    heads = {tuple(prompt[:16]) for prompt in prompts if len(prompt) >= 16}
    assert len(heads) == 2
    assert all(any(tuple(prompt) == head[: len(prompt)] for head in heads) for prompt in prompts if len(prompt) < 16)
    tails = [tuple(prompt[16:28]) for prompt in prompts if len(prompt) >= 28]
    assert len(set(tails)) == len(tails) > 20


def test_a_closed_loop_never_has_more_than_its_users() -> None:
    workload = made(arrivals={"kind": "closed_loop", "concurrency": 7})
    assert workload.max_concurrency == 7
    shapes = dry_run(workload)
    assert max(shape.num_reqs for shape in shapes) == 7
    assert sum(shape.num_finished for shape in shapes) == 60


def test_a_feed_hands_out_by_time_and_by_concurrency() -> None:
    requests = tuple(Request(f"r{i}", 1, 1, 10, arrival_ns=10 * i) for i in range(4))
    feed = RequestFeed(Workload(name="w", requests=requests, scheduler=SchedulerConfig(), max_concurrency=2))
    assert [r.req_id for r in feed.take(0, 0)] == ["r0"]
    assert feed.next_arrival_ns == 10
    assert feed.take(9, 1) == []
    assert [r.req_id for r in feed.take(25, 1)] == ["r1"]
    assert feed.take(25, 2) == []
    assert [r.req_id for r in feed.take(30, 0)] == ["r2", "r3"]
    assert (feed.exhausted, feed.next_arrival_ns) == (True, None)


def test_a_dry_run_waits_for_arrivals_in_virtual_time() -> None:
    # GIVEN two requests a second apart, each answered in 3 steps of about 5 ms
    requests = tuple(Request(f"r{i}", 4, 3, 10, arrival_ns=i * 1_000_000_000) for i in range(2))
    workload = Workload(name="w", requests=requests, scheduler=SchedulerConfig())
    timed = dry_run(workload, step_time=step_time_ns)
    assert [shape.num_reqs for shape in timed] == [1, 1, 1, 0] * 2
    # AND without a step time both are there at once
    assert [shape.num_reqs for shape in dry_run(workload)] == [2, 2, 2, 0]


def test_a_trace_keeps_its_source_and_its_losses_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Timestamp,Request tokens,Response tokens\n1,40,3\n2,40,0\n3,9,2\n")
    trace = read_trace(path, options=ReplayOptions(speed=4.0))
    workload = trace_workload(trace, SchedulerConfig(), name=str(path), seed=0, vocab_size=50)
    assert [request.arrival_ns for request in workload.requests] == [0, 500_000_000]
    assert workload.notes == ("trace: HPMLL/BurstGPT, CC-BY-4.0 (KDD'25)", "1 rows skipped: zero_output")
    assert workload.name == "t.csv"
    with pytest.raises(UsageError, match="request t0: its prompt of 40 tokens"):
        trace_workload(trace, SchedulerConfig(max_model_len=20), name="t", seed=0, vocab_size=50)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_requests": 0}, "num_requests is 0"),
        ({"shared_prefix": {"num_prefixes": 0, "prefix_len": 4}}, "shared_prefix needs"),
        ({"prompt": {"kind": "fixed", "value": 9000}}, "request r0: its prompt of 9000 tokens"),
    ],
)
def test_unfit_settings_are_refused(changes: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        made(**changes)


def replay(path: Path, limit: int, speed: float, num_blocks: int) -> list:
    trace = read_trace(path, limit=limit, options=ReplayOptions(speed=speed))
    scheduler = SchedulerConfig(
        max_num_seqs=1024, max_num_batched_tokens=8192, max_model_len=16_384, num_blocks=num_blocks
    )
    workload = trace_workload(trace, scheduler, name=path.name, seed=0, vocab_size=1000)
    return dry_run(workload, step_time=step_time_ns)


@pytest.mark.slow
def test_azure_code_at_four_times_its_load(shared: Path) -> None:
    # Recorded with vLLM's scheduler: 5,376 steps, 5/90/135 requests, decode-only 73.7 %, overlap 0.969, 2 preemptions
    shapes = replay(shared / "traces" / "azure2023_code.csv", 5000, 4.0, 12_000)
    assert len(shapes) == pytest.approx(5376, rel=0.005)
    reqs = np.array([shape.num_reqs for shape in shapes])
    assert np.percentile(reqs, [50, 95, 100]).tolist() == [5, 90, 135]
    assert np.mean([shape.num_reqs == shape.num_tokens for shape in shapes]) == pytest.approx(0.737, abs=0.005)
    overlaps = [shape.overlap for shape in shapes if shape.overlap is not None]
    assert np.mean(overlaps) == pytest.approx(0.969, abs=0.003)
    assert sum(shape.num_preempted for shape in shapes) == 2
