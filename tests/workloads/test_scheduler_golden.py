"""Step streams, field by field: recorded ones of vLLM 0.33 where they are at hand, one worked out by hand for good."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from stepscope.workloads.step import StepDelta, StepResult


def row_of(delta: StepDelta, result: StepResult) -> dict[str, object]:
    """A delta in the words of the recordings."""
    cached = delta.cached
    rows = []
    for index, name in enumerate(cached.req_ids):
        blocks = cached.new_block_ids[index]
        row: dict[str, object] = {
            "id": name,
            "computed": cached.num_computed_tokens[index],
            "out": cached.num_output_tokens[index],
            "new_blocks": None if blocks is None else [list(group) for group in blocks],
        }
        if name in cached.all_token_ids:
            row["all_tokens"] = len(cached.all_token_ids[name])
        if name in cached.resumed_req_ids:
            row["resumed"] = 1
        rows.append(row)
    return {
        "new": [
            {
                "id": new.req_id,
                "prompt_len": len(new.prompt_token_ids),
                "computed": new.num_computed_tokens,
                "blocks": [list(group) for group in new.block_ids],
            }
            for new in delta.new_requests
        ],
        "cached": rows,
        "sched": list(delta.num_scheduled_tokens.items()),
        "total": delta.total_num_scheduled_tokens,
        "finished": sorted(delta.finished_req_ids),
        "preempted": sorted(delta.preempted_req_ids),
        "step": delta.step,
        "sampled": {name: int(name in result.sampled) for name in delta.num_scheduled_tokens},
    }


def golden(shared: Path, name: str) -> list[dict]:
    with gzip.open(shared / "oracles" / "sched_golden" / f"{name}.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file][1:]
    for row in rows:
        row["sched"] = list(row["sched"].items())
        for new in row["new"]:
            del new["prefill_len"]  # the other runner's field
        assert row.pop("spec") == {}
    return rows


def assert_reproduces(rig, rows: list[dict], queue_depth: int = 1) -> None:
    waiting: list[StepResult] = []
    for want in rows:
        delta, result = rig.schedule()
        got = row_of(delta, result)
        for field, value in want.items():
            assert got[field] == value, f"step {want['step']}, {field}"
        waiting.append(result)
        if len(waiting) == queue_depth:
            rig.deliver(waiting.pop(0))


def test_steady(shared, rig, batch) -> None:
    served = rig(max_num_seqs=128, num_blocks=20_000)
    served.add(*batch(64, 512, 128))
    assert_reproduces(served, golden(shared, "v1_steady"))
    assert not served.scheduler.has_unfinished()


def test_a_chunked_prompt_beside_64_decodes(shared, rig, batch, ask) -> None:
    served = rig(max_num_seqs=128, num_blocks=20_000, max_model_len=16_384)
    served.add(*batch(64, 64, 60, name="d"), ask("L", 10_000, 4))
    assert_reproduces(served, golden(shared, "v1_chunk_10000_budget_2048"))
    assert not served.scheduler.has_unfinished()


def test_mass_preemption(shared, rig, batch) -> None:
    served = rig(
        num_blocks=300, max_model_len=4096, max_num_batched_tokens=16_384, enable_prefix_caching=False, max_num_seqs=256
    )
    served.add(*batch(256, 16, 64))
    assert_reproduces(served, golden(shared, "v1_mass_preempt"))
    assert not served.scheduler.has_unfinished()


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_two_steps_in_the_queue_alternate(shared, rig, batch, runner: str) -> None:
    # GIVEN the recording of a queue of two. Its rows were written when a step's tokens came back, but those of a step
    # without tokens at once; such a step took no number of its own
    rows = golden(shared, f"{runner}_alternating_pp2")
    served = rig(max_num_seqs=128, num_blocks=20_000)
    served.add(*batch(64, 64, 64))
    # WHEN our scheduler serves the same queue
    written: list[dict] = []
    waiting: list[tuple[StepDelta, StepResult]] = []
    while served.scheduler.has_unfinished() or served.scheduler.has_pending_finished():
        delta, result = served.schedule()
        if not delta.num_scheduled_tokens:
            written.append(row_of(delta, result) | {"step": 128})
            served.deliver(result)
        else:
            waiting.append((delta, result))
        if len(waiting) == 2 or (waiting and not delta.num_scheduled_tokens):
            written.append(row_of(*waiting[0]))
            served.deliver(waiting.pop(0)[1])
    # THEN every row is the recorded one; the newer runner is not sent the histories
    assert len(written) == len(rows) == 130
    for got, want in zip(written, rows, strict=True):
        if runner == "v2":
            for row in got["cached"]:
                row.pop("all_tokens", None)
        for field, value in want.items():
            assert got[field] == value, f"step {want['step']}, {field}"


HAND = {
    # step: (scheduled, blocks that travel, preempted, resumed, finished). 12 requests of 4 + 6 tokens, blocks of 4,
    # 14 blocks. A freed row is stacked head first, so its tail is the next to be taken.
    0: ({f"r{i}": 4 for i in range(12)}, {f"r{i}": [i + 1] for i in range(12)}, [], [], []),
    1: (
        {f"r{i}": 1 for i in range(7)},  # 5th token: r0, r1 take the two free blocks, r2.. those of r11, r10, ..
        {"r0": [13], "r1": [14], "r2": [12], "r3": [11], "r4": [10], "r5": [9], "r6": [8]},
        ["r11", "r10", "r9", "r8", "r7"],
        [],
        [],
    ),
    2: ({f"r{i}": 1 for i in range(7)}, {}, [], [], []),
    3: ({f"r{i}": 1 for i in range(7)}, {}, [], [], []),
    4: ({f"r{i}": 1 for i in range(7)}, {}, [], [], []),
    5: (
        {f"r{i}": 1 for i in range(4)},  # 9th token: r6 gives [7, 8], r5 gives [6, 9], r4 is the youngest: itself
        {"r0": [8], "r1": [7], "r2": [9], "r3": [6]},
        ["r6", "r5", "r4"],
        [],
        [],
    ),
    6: (
        {"r4": 9, "r5": 9, "r6": 9, "r7": 5, "r8": 5},  # stack 5 10 | 1 13 8 | 2 14 7 | 3 12 9 | 4 11 6; r9 wants 2
        {"r4": [6, 11, 4], "r5": [9, 12, 3], "r6": [7, 14, 2], "r7": [8, 13], "r8": [1, 10]},
        [],
        ["r4", "r5", "r6", "r7", "r8"],
        ["r0", "r1", "r2", "r3"],
    ),
    7: (
        {"r7": 1, "r8": 1, "r9": 5, "r10": 5, "r11": 5},  # stack 5 | 6 11 4 | 9 12 3 | 7 14 2
        {"r9": [2, 14], "r10": [7, 3], "r11": [12, 9]},
        [],
        ["r9", "r10", "r11"],
        ["r4", "r5", "r6"],
    ),
    8: ({f"r{i}": 1 for i in range(7, 12)}, {}, [], [], []),
    9: ({f"r{i}": 1 for i in range(7, 12)}, {}, [], [], []),
    10: ({f"r{i}": 1 for i in range(7, 12)}, {"r7": [4], "r8": [11]}, [], [], []),
    11: (
        {f"r{i}": 1 for i in range(9, 12)},  # stack 5 6 | 8 13 4 | 1 10 11
        {"r9": [11], "r10": [10], "r11": [1]},
        [],
        [],
        ["r7", "r8"],
    ),
    12: ({}, {}, [], [], ["r9", "r10", "r11"]),
}


def travelling(delta: StepDelta) -> dict[str, list[int]]:
    blocks = {new.req_id: list(new.block_ids[0]) for new in delta.new_requests}
    for name, ids in zip(delta.cached.req_ids, delta.cached.new_block_ids, strict=True):
        if ids is not None:
            blocks[name] = list(ids[0])
    return blocks


def test_twelve_requests_in_fourteen_blocks_by_hand(rig, batch) -> None:
    # GIVEN twelve small requests whose block crossings coincide
    served = rig(block_size=4, num_blocks=15, max_model_len=16, enable_prefix_caching=False)
    served.add(*batch(12, 4, 6))
    # WHEN they run to the end
    deltas = served.drain()
    # THEN every step is the one on paper
    assert [delta.step for delta in deltas] == list(HAND)
    for delta in deltas:
        scheduled, blocks, preempted, resumed, finished = HAND[delta.step]
        assert list(delta.num_scheduled_tokens.items()) == list(scheduled.items()), delta.step
        assert travelling(delta) == blocks, delta.step
        assert list(delta.preempted_req_ids) == preempted, delta.step
        assert delta.cached.resumed_req_ids == set(resumed), delta.step
        assert delta.finished_req_ids == set(finished), delta.step
    # AND a resumed request starts over with its whole history, whose length is what it had when it was preempted
    sixth = deltas[6].cached
    assert sixth.num_computed_tokens == (0, 0, 0, 0, 0)
    assert sixth.num_output_tokens == (5, 5, 5, 1, 1)
    assert {name: len(tokens) for name, tokens in sixth.all_token_ids.items()} == {
        "r4": 9, "r5": 9, "r6": 9, "r7": 5, "r8": 5,
    }  # fmt: skip
    assert all(sixth.all_token_ids[name].tolist() == served.history[name][:9] for name in ("r4", "r5", "r6"))


@pytest.mark.parametrize("depth", [1, 2])
def test_the_hand_stream_answers_everything(rig, batch, depth: int) -> None:
    served = rig(block_size=4, num_blocks=15, max_model_len=16, enable_prefix_caching=False)
    served.add(*batch(12, 4, 6))
    waiting: list[StepResult] = []
    while served.scheduler.has_unfinished():
        waiting.append(served.schedule()[1])
        if len(waiting) == depth:
            served.deliver(waiting.pop(0))
    assert served.scheduler.num_free_blocks == 14
