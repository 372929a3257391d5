"""Greedy equality with Hugging Face for all pairs of values of the switches, in a covering array.

The switches are read from RunnerConfig: a new one, or a new value, is in the array the day it exists. Which values go
together is asked of `validate` and of the attention factory; nothing here says so by hand. `pytest -s` prints the pairs
that are impossible, each with the reason that was given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.attention.factory import make_attention
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.shards import Shards
from stepscope.runner.validity import validate

from .pairwise import CoveringArray, all_pairs, pairs_of

SIZES = {
    "max_num_seqs": 6, "max_num_batched_tokens": 40, "max_model_len": 192, "block_size": 4, "num_blocks": 62,
    "capture_sizes": (8, 16, 24, 40), "ngram_min": 1,
}  # fmt: skip
FACTORS = {
    name: get_args(kind)
    for name, kind in get_type_hints(RunnerConfig).items()
    if get_origin(kind) is Literal
} | {
    "speculative": ("off", 3),
    "acceptance": ("ngram", "synthetic:0.6"),
    "kv_groups": (("full",), ("full", "window=24")),
    "kernel_block_size": (None, 2),
    "dcp": (1, 2),
    "dcp_interleave": (1, 2),
    "device": ("cpu", "sim"),
}  # fmt: skip
NUM_REQUESTS, NUM_OUTPUTS = 9, 10


def refusal(values: dict, device: object | None = None) -> str | None:
    """Why a runner on this device, or on the CPU, is refused with these switches."""
    switches = {name: value for name, value in values.items() if name != "device"}
    config = RunnerConfig(**(SIZES | switches))
    try:
        validate(config)
        shards = Shards(config.dcp, config.dcp_interleave)
        make_attention(config.attention, device or CpuDevice(Ledger()), config.graph_mode, shards=shards)
    except UsageError as error:
        return str(error)
    return None


ARRAY = CoveringArray(FACTORS, refusal)


def test_every_pair_stands_in_a_row_or_is_impossible() -> None:
    standing = set().union(*map(pairs_of, ARRAY.rows))
    missing = [pair for pair in all_pairs(FACTORS) if pair not in standing]
    assert missing == list(ARRAY.impossible)
    assert all(refusal(row) is None for row in ARRAY.rows)
    print(f"\n{len(ARRAY.rows)} rows, {len(standing)} pairs, {len(ARRAY.impossible)} impossible:")  # noqa: T201
    for (first, second), reason in ARRAY.impossible.items():
        print(f"  {first[0]}={first[1]}, {second[0]}={second[1]}: {reason}")  # noqa: T201


def test_impossible_pairs_are_refused_whatever_stands_beside_them() -> None:
    # GIVEN all rows that run, WHEN an impossible pair is put into one of them, THEN it is refused
    for pair in ARRAY.impossible:
        assert all(refusal(row | dict(pair)) is not None for row in ARRAY.rows), pair
    # AND values that never run are the hazard, and what needs a GPU
    never = {entry for pair in ARRAY.impossible for entry in pair}
    never -= {entry for row in ARRAY.rows for entry in row.items()}
    assert never == {("device_buffers", "single_unguarded"), ("attention", "triton")}


@pytest.mark.parametrize("row", ARRAY.rows, ids=map(str, range(len(ARRAY.rows))))
def test_the_text_is_hugging_faces(run, reference, hybrid_reference, row) -> None:
    answers(run, reference if row["kv_groups"] == ("full",) else hybrid_reference[2], row)


def answers(run, right, row) -> None:
    """GIVEN prompts that are cut, a pool in which requests give way, and a moment when all of them do."""
    requests = [replace(request, output_len=NUM_OUTPUTS) for request in right.requests[:NUM_REQUESTS]]
    known = {req_id: np.asarray(text, dtype=np.int32) for req_id, text in right.outputs.items()}
    num_blocks = 1 + (SIZES["num_blocks"] - 1) // row["dcp"]  # a block of all ranks holds as many tokens more
    sizes = SIZES | {"num_blocks": num_blocks + 20 * (len(row["kv_groups"]) - 1)}
    # WHEN they are answered with the switches of the row, THEN with the text of Hugging Face
    outcome = run(requests, known=known, resets=(6,), **sizes, **row)
    assert outcome.num_cut > 5
    assert outcome.num_resumed > 0
    assert outcome.outputs == {request.req_id: right.outputs[request.req_id][:NUM_OUTPUTS] for request in requests}
