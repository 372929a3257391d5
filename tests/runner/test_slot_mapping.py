"""The mappers against the article's formula; `triton` is its stand-in (the kernel: test_slot_mapping_triton.py)."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.inputs.flat_indices import FlatIndexBuilder
from stepscope.runner.inputs.sharded_slots import ShardedHostMapper, make_sharded_mapper
from stepscope.runner.inputs.slot_mapping import HostSlotMapper, SlotTensors, make_device_mapper
from stepscope.runner.shards import Shard, Shards

from .slot_steps import (
    ARTICLE,
    HUGE,
    LARGE,
    NULLS,
    STEPS,
    by_dealing,
    by_formula,
    make_step,
    oracle_shards,
    oracle_steps,
    random_shards,
)


def by_mapper(kind, step, shard=None):
    scheduled, computed = (np.asarray(step[name], dtype=np.int32) for name in ("num_scheduled", "num_computed"))
    rows, tokens = scheduled.size, step["max_num_tokens"]
    builder, positions = FlatIndexBuilder(rows, tokens), np.zeros(tokens, dtype=np.int64)
    boundaries = np.zeros(rows + 1, dtype=np.int32)
    builder.boundaries(scheduled, boundaries)
    flat = builder.build(scheduled, computed, boundaries, positions)
    table = np.asarray(step["table"], dtype=np.int32)
    tables = SimpleNamespace(tables=[SimpleNamespace(values=table)])
    batch = SimpleNamespace(num_reqs=rows, block_tables=tables, columns_of=lambda members: members)
    fenced = []
    fence = partial(fenced.append, True)
    slots, logits = (torch.full((size,), 12345, dtype=torch.int64) for size in (tokens, rows))
    if shard is not None:
        slots, mapper = sharded(kind, step, shard, (boundaries, positions, table, slots, logits), fence)
    elif kind != "host":
        tensors = SlotTensors(*map(torch.from_numpy, (boundaries, positions, table)), slots, logits)
        mapper = make_device_mapper(kind, CpuDevice(Ledger()), tensors, step["block_size"], fence)
    else:
        mapper = HostSlotMapper(Shared(slots), Shared(logits), step["block_size"], fence)
    mapper.map(batch, flat, ())
    assert fenced == [True]
    return {"slots": slots.tolist(), "logits": logits.tolist()}


def sharded(kind, step, shard, arrays, fence):
    """The rank's slots, and the mapper that fills them; the host's fills those of all ranks."""
    boundaries, positions, table, slots, logits = arrays
    size, shards = step["block_size"] * shard.ranks, Shards(shard.ranks, shard.interleave)
    if kind != "host":
        tensors = SlotTensors(*map(torch.from_numpy, (boundaries, positions, table)), slots, logits)
        return slots, make_sharded_mapper(kind, CpuDevice(Ledger()), tensors, size, fence, shard)
    every = torch.full((shard.ranks * slots.numel(),), 12345, dtype=torch.int64)
    mapper = ShardedHostMapper(Shared(every), Shared(logits), size, fence, shards)
    return every.view(shard.ranks, -1)[shard.rank], mapper


class Shared:
    """A staged buffer whose two sides are one memory."""

    def __init__(self, gpu):
        self.gpu = gpu

    def acquire(self):
        return self.gpu.numpy()

    def publish(self, count):
        return 1


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_the_articles_slots(kind):
    assert by_mapper(kind, ARTICLE) == {"slots": [9, 20, 21, 22, 16, 17, -1, -1, -1], "logits": [0, 3, 5]}


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
@pytest.mark.parametrize("step", STEPS)
def test_mappers_follow_the_formula(kind, step):
    answer = by_mapper(kind, step)
    assert answer["slots"] == by_formula(step)
    ends = step["query_start_loc"][1:]
    assert answer["logits"] == [max(end - 1, 0) for end in ends]


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_a_null_block_never_gives_a_slot(kind):
    assert by_mapper(kind, NULLS)["slots"] == [-1] * 6 + [36, 37, 38] + [-1, 20, 21] + [-1] * 4


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_asserted_oracle(runner_oracle, kind):
    for case in runner_oracle("slot_mapping_asserted_v2"):
        given = case["in"]
        if "group_mapping_disabled" in given:
            continue  # test_kv_groups: no mapper is built for such a group
        mapped = given.get("idx_mapping", 0) >= 0
        row = given["row"] if mapped else [0] * len(given["row"])  # a step's row that maps to nobody is a null row
        first, count = given["positions"][0], len(given["positions"])
        steps = [make_step(given["block_size"], [row], [1], [position], 1) for position in given["positions"]]
        assert [by_mapper(kind, step)["slots"][0] for step in steps] == case["out"]
        if given["positions"] == list(range(first, first + count)):
            together = make_step(given["block_size"], [row], [count], [first], count)
            assert by_mapper(kind, together)["slots"] == case["out"]


def test_slots_are_64_bit():
    assert by_mapper("torch", LARGE)["slots"][0] == 1_023_999
    assert by_mapper("torch", HUGE)["slots"][0] == 3_200_000_015


def test_case_6(shared_case):
    case, expected = shared_case(6)
    step = make_step(case["block_size"], [[case["block"]]], [1], [case["offset"]], 1)
    for kind in ("triton", "torch", "host"):
        assert by_mapper(kind, step)["slots"] == [expected["slot"]]
    stride = case["num_kv_heads"] * case["head_size"]
    slots = torch.tensor(by_mapper("torch", step)["slots"])
    assert int((slots * stride)[0]) == expected["element_offset"]
    assert torch.iinfo(slots.dtype).bits == expected["slot_dtype_bits"]


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_oracle(runner_oracle, kind):
    cases = runner_oracle("slot_mapping")
    for case, step in zip(cases, oracle_steps(cases), strict=True):
        assert by_mapper(kind, step)["slots"] == by_formula(step) == case["out"]


# Blocks 7 and 2 of the first request hold 8 tokens: 4 on each of two ranks, two in a row.
TWO_RANKS = make_step(4, [[7, 2], [5], [0, 3]], [5, 3, 2], [6, 0, 7], 12)


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
@pytest.mark.parametrize(
    ("rank", "slots"),
    [
        (0, [-1, -1, 8, 9, -1, 20, 21, -1, -1, 12, -1, -1]),
        (1, [30, 31, -1, -1, 8, -1, -1, 20, -1, -1, -1, -1]),
    ],
)
def test_a_rank_maps_what_it_holds(kind, rank, slots):
    assert by_mapper(kind, TWO_RANKS, Shard(rank, 2, 2)) == {"slots": slots, "logits": [4, 7, 9]}


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_tokens_are_dealt_to_ranks(kind):
    for step, shard in random_shards(3, 40):
        assert by_mapper(kind, step, shard)["slots"] == by_dealing(step, shard)


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_decode_context_parallel_oracle(runner_oracle, kind):
    cases = runner_oracle("slot_mapping_dcp")
    for case, step, shard in zip(cases, oracle_steps(cases), oracle_shards(cases), strict=True):
        assert by_mapper(kind, step, shard)["slots"] == by_dealing(step, shard) == case["out"]
