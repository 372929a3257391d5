"""vLLM's recorded speculative streams, step by step, with the runner deciding what is accepted, every step checked."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig
from stepscope.workloads.step import StepDelta

GOLDEN = Path(__file__).resolve().parents[3].parent / "shared" / "oracles" / "sched_golden"
SIZES = {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 256, "block_size": 16, "num_blocks": 300}
STREAMS = ("v1_spec4_alternate_accept", "v2_async_spec4_reject_all")
REQUESTS = [Request(f"r{index}", 100, 60, 512) for index in range(16)]


def recorded(name: str) -> list[dict]:
    path = GOLDEN / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip("no ../shared beside the checkout")
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file][1:]


def words(delta: StepDelta) -> dict[str, object]:
    cached = delta.cached
    blocks = [None if ids is None else [list(group) for group in ids] for ids in cached.new_block_ids]
    announced = [(new.req_id, new.num_computed_tokens, list(map(list, new.block_ids))) for new in delta.new_requests]
    return {
        "new": announced,
        "cached": list(
            zip(cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, blocks, strict=True)
        ),
        "sched": list(delta.num_scheduled_tokens.items()),
        "spec": [(req_id, len(drafts)) for req_id, drafts in delta.scheduled_spec_decode_tokens.items()],
        "finished": sorted(delta.finished_req_ids),
    }


def wanted(row: dict) -> dict[str, object]:
    return {
        "new": [(new["id"], new["computed"], new["blocks"]) for new in row["new"]],
        "cached": [(known["id"], known["computed"], known["out"], known["new_blocks"]) for known in row["cached"]],
        "sched": list(row["sched"].items()),
        "spec": list(row["spec"].items()),
        "finished": row["finished"],
    }


def drive(runner, *, ahead: bool, k: int) -> tuple[list[StepDelta], dict[str, tuple[int, ...]]]:
    """The deltas that carry something, and the texts."""
    scheduler = Scheduler(SchedulerConfig(**SIZES, num_speculative_tokens=k, async_scheduling=ahead))
    for request in REQUESTS:
        scheduler.add_request(request)
    deltas, waiting = [], []
    texts: dict[str, tuple[int, ...]] = {request.req_id: () for request in REQUESTS}
    while scheduler.has_unfinished() or scheduler.has_pending_finished():
        delta = scheduler.schedule()
        if delta.num_scheduled_tokens or delta.finished_req_ids:  # an empty step is not recorded
            deltas.append(delta)
        waiting.append(runner.submit(delta))
        if len(waiting) > ahead:
            for req_id, tokens in scheduler.update(waiting.pop(0).result()).items():
                texts[req_id] += tokens
    for pending in waiting:
        pending.result()
    return deltas, texts


@pytest.fixture(scope="module")
def right() -> dict[str, tuple[int, ...]]:
    return {}


@pytest.fixture
def plain(build, right) -> dict[str, tuple[int, ...]]:
    """The texts without drafts."""
    if not right:
        right |= drive(build(**SIZES), ahead=False, k=0)[1]
    return right


@pytest.mark.parametrize(
    ("stream", "switches"),
    [
        ("v1_spec4_alternate_accept", {"acceptance": "synthetic:alternate"}),
        ("v1_spec4_alternate_accept", {"acceptance": "synthetic:alternate", "batch_state": "stable_slots"}),
        (
            "v2_async_spec4_reject_all",
            {"acceptance": "synthetic:none", "token_handoff": "async_auto", "correction": "device"},
        ),
        ("v2_async_spec4_reject_all", {"acceptance": "synthetic:none", "token_handoff": "async_scatter"}),
    ],
    ids=["sync", "sync on stable slots", "corrected on the device", "corrected on the host"],
)
def test_the_runner_makes_the_recorded_stream(build, plain, stream: str, switches: dict[str, object]) -> None:
    # GIVEN drafts that are right as they were in the recording
    rows = recorded(stream)
    known = {req_id: np.asarray(text, dtype=np.int32) for req_id, text in plain.items()}
    runner = build(known, speculative=4, check="every", **SIZES, **switches)
    # WHEN the runner verifies them, two steps in flight where the recording had two
    deltas, texts = drive(runner, ahead="token_handoff" in switches, k=4)
    # THEN the scheduler's stream is the recorded one, no invariant is broken, and the text is that without drafts
    for delta, row in zip(deltas, rows, strict=True):
        assert words(delta) == wanted(row), f"step {row['step']}"
    assert texts == plain
    report = runner.checks.report()
    assert report.steps_checked == len([delta for delta in deltas if delta.num_scheduled_tokens])
    assert report.held["draft_places"] == report.steps_checked - 1
