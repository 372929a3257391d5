"""Recorded step streams of vLLM 0.33 drive the runner: every step is checked against the stream's own words."""

from __future__ import annotations

import gzip
import json
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.model_runner import build_runner
from stepscope.workloads.step import CachedRequests, NewRequest, SamplingParams, StepDelta

from .speculation.test_recorded_streams import STREAMS as WITH_DRAFTS

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
VOCAB = 512

STREAMS = {
    # name: (steps, queue, longest sequence, most tokens of a step)
    "v1_steady": (145, 1, 640, 2048),
    "v2_steady": (145, 1, 640, 2048),
    "v1_alternating_pp2": (130, 2, 128, 2048),
    "v2_alternating_pp2": (130, 2, 128, 2048),
    "v1_mass_preempt": (221, 1, 80, 16_384),
    "v1_chunk_10000_budget_2048": (63, 1, 10_004, 2048),
    "v1_hybrid_full_swa128_swa1024": (66, 1, 2192, 2048),
}
GROUPS = {
    "v1_hybrid_full_swa128_swa1024": {"kv_groups": ("full", "window=128", "window=1024"), "model": "tiny-6"},
}


class Stream:
    """A recording's rows as deltas. Prompts are drawn, with the recording's shared prefix in front; the history of a
    request that was away is what it got so far.
    """

    def __init__(self, meta, rows):
        self.rows = rows
        self.history = {}
        self.random = np.random.default_rng(3)
        self.prefix = self.random.integers(0, VOCAB, meta.get("shared_prefix", 0)).astype(np.int32)

    def delta(self, step, row):
        known = {}
        for cached in row["cached"]:
            if "all_tokens" in cached:
                known[cached["id"]] = np.asarray(self.history[cached["id"]][: cached["all_tokens"]], dtype=np.int32)
                assert known[cached["id"]].size == cached["all_tokens"]
        return StepDelta(
            step,
            tuple(self.new(new) for new in row["new"]),
            CachedRequests(
                req_ids=tuple(cached["id"] for cached in row["cached"]),
                new_block_ids=tuple(blocks(cached["new_blocks"]) for cached in row["cached"]),
                num_computed_tokens=tuple(cached["computed"] for cached in row["cached"]),
                num_output_tokens=tuple(cached["out"] for cached in row["cached"]),
                resumed_req_ids=frozenset(cached["id"] for cached in row["cached"] if cached.get("resumed")),
                all_token_ids=known,
            ),
            dict(row["sched"]),
            frozenset(row["finished"]),
            tuple(row["preempted"]),
        )

    def new(self, new):
        prompt = self.random.integers(0, VOCAB, new["prompt_len"]).astype(np.int32)
        prompt[: self.prefix.size] = self.prefix[: prompt.size]
        self.history[new["id"]] = prompt.tolist()
        return NewRequest(new["id"], prompt, blocks(new["blocks"]), new["computed"], SamplingParams())

    def took(self, result):
        for req_id, tokens in result.sampled.items():
            self.history[req_id].extend(tokens)


def blocks(groups):
    return None if groups is None else tuple(tuple(group) for group in groups)


@pytest.mark.parametrize(
    ("name", "handoff"),
    [*((name, "sync") for name in STREAMS),
     *((name, "async_auto") for name in ("v1_alternating_pp2", "v2_alternating_pp2", "v1_mass_preempt"))],
)  # fmt: skip
def test_no_invariant_is_broken(shared_stream, name, handoff):
    # GIVEN a runner with every check on
    steps, queue, longest, budget = STREAMS[name]
    meta, rows = shared_stream(name)
    switches = GROUPS.get(name, {"model": "micro"})
    config = RunnerConfig(
        check="every", token_handoff=handoff, max_num_seqs=256, max_num_batched_tokens=budget,
        max_model_len=longest, num_blocks=meta.get("num_blocks", 4096), **switches,
    )  # fmt: skip
    ledger = Ledger()
    runner = build_runner(config, CpuDevice(ledger), NullProbe(), ledger)
    # WHEN the stream is submitted, as many steps ahead as when it was recorded
    stream, in_flight = Stream(meta, rows), deque()
    for step, row in enumerate(in_schedule_order(rows)):
        delta = stream.delta(step, row)
        pending = runner.submit(delta)
        if delta.num_scheduled_tokens:
            in_flight.append((pending, row))
        if len(in_flight) == queue:
            collect(stream, *in_flight.popleft())
    while in_flight:
        collect(stream, *in_flight.popleft())
    # THEN every step was looked at, nothing was broken, and the tokens came where the recording has them
    assert len(rows) == steps
    report = runner.checks.report()
    assert report.steps_seen == steps
    assert report.steps_checked == sum(bool(row["total"]) for row in rows)
    assert report.kv_reads > report.steps_checked


def test_no_recorded_stream_is_left_out(shared_stream):
    """Those with drafts are driven by their own test, with drafts that are right as they were in the recording."""
    shared_stream("v1_steady")
    recorded = {path.name.removesuffix(".jsonl.gz") for path in (SHARED / "oracles" / "sched_golden").iterdir()}
    assert recorded == STREAMS.keys() | set(WITH_DRAFTS)


def collect(stream, pending, row):
    result = pending.result()
    assert {name for name, count in row["sampled"].items() if count} == set(result.sampled)
    stream.took(result)


def in_schedule_order(rows):
    """A row with tokens was written when they came back, one without at once: so such a row stands too early."""
    order = list(rows)
    for index in range(len(order) - 1):
        if not order[index]["total"] and order[index + 1]["total"] and order[index + 1]["step"] < order[index]["step"]:
            order[index], order[index + 1] = order[index + 1], order[index]
    return order


@pytest.fixture
def shared_stream():
    def load(name):
        path = SHARED / "oracles" / "sched_golden" / f"{name}.jsonl.gz"
        if not path.exists():
            pytest.skip(f"needs ../shared/oracles/sched_golden/{name}.jsonl.gz")
        with gzip.open(path, "rt") as file:
            meta, *rows = map(json.loads, file)
        return meta["meta"], rows

    return load
