"""Drafts in the step stream: vLLM's recorded streams, field by field."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from stepscope.workloads.step import StepDelta

from .drafting import Drafting


def recorded(shared: Path, name: str) -> list[dict]:
    with gzip.open(shared / "oracles" / "sched_golden" / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file][1:]


def row_of(delta: StepDelta) -> dict[str, object]:
    """A delta in the words of the recordings."""
    cached = delta.cached
    assert not cached.resumed_req_ids
    assert not cached.all_token_ids
    blocks = [None if ids is None else [list(group) for group in ids] for ids in cached.new_block_ids]
    columns = zip(cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, blocks, strict=True)
    return {
        "new": [
            (new.req_id, new.prompt_token_ids.size, new.num_computed_tokens, [list(ids) for ids in new.block_ids])
            for new in delta.new_requests
        ],
        "cached": list(columns),
        "sched": list(delta.num_scheduled_tokens.items()),
        "total": delta.total_num_scheduled_tokens,
        "spec": [(name, len(drafts)) for name, drafts in delta.scheduled_spec_decode_tokens.items()],
        "finished": sorted(delta.finished_req_ids),
        "preempted": list(delta.preempted_req_ids),
    }


def wanted(row: dict) -> dict[str, object]:
    return {
        "new": [(new["id"], new["prompt_len"], new["computed"], new["blocks"]) for new in row["new"]],
        "cached": [(known["id"], known["computed"], known["out"], known["new_blocks"]) for known in row["cached"]],
        "sched": list(row["sched"].items()),
        "total": row["total"],
        "spec": list(row["spec"].items()),
        "finished": row["finished"],
        "preempted": row["preempted"],
    }


def test_four_drafts_accepted_in_every_other_step(shared, batch) -> None:
    # GIVEN 16 requests of 100 + 60 tokens, all drafts accepted in even steps, none in odd ones
    served = Drafting(4, lambda step: 0 if step % 2 else 4)
    served.add(batch(16, 100, 60))
    # WHEN, THEN the stream is vLLM's: block borders are crossed by drafts, and rejected ones leave their block behind
    for want in recorded(shared, "v1_spec4_alternate_accept"):
        got = row_of(served.step())
        assert got == wanted(want), f"step {want['step']}"
        came = {name: len(served.taken[name]) for name in want["sampled"]}
        assert all(came[name] >= count for name, count in want["sampled"].items())
    assert not served.scheduler.has_unfinished()
    assert all(len(tokens) == 60 for tokens in served.taken.values())


def test_two_steps_in_flight_reject_all(shared, batch) -> None:
    # GIVEN a queue of two; what a step accepts is known two steps later, so every count runs ahead by 4
    served = Drafting(4, lambda _: 0, depth=2)
    served.add(batch(16, 100, 60))
    rows = recorded(shared, "v2_async_spec4_reject_all")
    # WHEN
    served.drain()
    # THEN the stream is vLLM's. Its driver doesn't record the empty step that is scheduled while the last is in flight
    deltas = [delta for delta in served.deltas if delta.num_scheduled_tokens or delta.finished_req_ids]
    assert len(served.deltas) == len(deltas) + 1
    for delta, want in zip(deltas, rows, strict=True):
        assert row_of(delta) == wanted(want), f"step {want['step']}"
    assert all(len(tokens) == 60 for tokens in served.taken.values())
