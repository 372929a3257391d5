"""The kernel of slots against the article's formula. On a GPU; elsewhere through test_triton_interpreted.py."""

import os

import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.inputs.sharded_slots import ShardedTritonMapper
from stepscope.runner.inputs.slot_mapping import SlotTensors

from .slot_steps import STEPS, by_dealing, by_formula, random_shards, recorded_shards, recorded_steps

pytest.importorskip("triton")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(not (torch.cuda.is_available() or INTERPRETED), reason="see test_triton_interpreted.py")


def by_kernel(step, shard=None):
    from stepscope.runner.inputs.slot_kernel import SlotKernel  # here: it needs Triton

    def tensor(values, dtype):
        return torch.tensor(values, dtype=dtype, device=DEVICE)

    table = tensor(step["table"], torch.int32)
    slots = torch.full((step["max_num_tokens"],), 12345, dtype=torch.int64, device=DEVICE)
    logits = torch.zeros(table.shape[0], dtype=torch.int64, device=DEVICE)
    starts, positions = tensor(step["query_start_loc"], torch.int32), tensor(step["positions"], torch.int64)
    if shard is None:
        kernel = SlotKernel(starts, positions, table, (slots, logits), step["block_size"])
    else:
        tensors, size = SlotTensors(starts, positions, table, slots, logits), step["block_size"] * shard.ranks
        kernel = ShardedTritonMapper(CpuDevice(Ledger()), tensors, size, lambda: None, shard)._compute
    kernel(len(step["query_start_loc"]) - 1, step["query_start_loc"][-1])
    return slots.tolist(), logits.tolist()


@pytest.mark.parametrize("step", [*STEPS, *recorded_steps()])
def test_the_kernel_follows_the_formula(step):
    slots, logits = by_kernel(step)
    assert slots == by_formula(step)
    assert logits == [max(end - 1, 0) for end in step["query_start_loc"][1:]]


@pytest.mark.parametrize(("step", "shard"), [*random_shards(11, 12), *recorded_shards()])
def test_the_kernel_deals_tokens_to_ranks(step, shard):
    slots, logits = by_kernel(step, shard)
    assert slots == by_dealing(step, shard)
    assert logits == [max(end - 1, 0) for end in step["query_start_loc"][1:]]
