"""The executor over hand-made inputs: eager, full and piecewise give the same hidden states for the real rows."""

import numpy as np
import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.attention.common import common_metadata
from stepscope.runner.attention.layers import LayerMetadata, LayerSpec
from stepscope.runner.attention.torch_backend import TorchAttention
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.devices.base import GraphKey, Work
from stepscope.runner.executor import Executor, forward_work
from stepscope.runner.inputs.containers import Containers
from stepscope.runner.inputs.step_inputs import GroupTensors, StepInputs
from stepscope.runner.kv_groups import resolve_groups
from stepscope.runner.models.kv_cache import allocate_group_caches
from stepscope.runner.models.llama import load_model
from stepscope.runner.plan import ExecutionPlan

BLOCK, ROWS, TOKENS = 4, 8, 32
CHUNKS = [(0, 3), (9, 1), (2, 5), (0, 1)]  # computed, scheduled
FULL, PIECEWISE = GraphKey("full", 16, 8), GraphKey("piecewise", 16)


def inputs_of(chunks, table_copies=()):
    """A step of `chunks` in fixed-size buffers whose tails are legal padding; row r owns blocks 4 r + 1 ..."""
    computed, queries = (np.array(column, dtype=np.int32) for column in zip(*chunks, strict=True))
    rows, total = len(chunks), int(queries.sum())
    starts = np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
    owner = np.repeat(np.arange(rows), queries)
    positions = (computed[owner] + np.arange(total) - starts[owner]).astype(np.int64)
    table = np.zeros((ROWS, 4), dtype=np.int32)
    table[:rows] = 1 + np.arange(rows * 4).reshape(rows, 4)
    slots = table[owner, positions // BLOCK].astype(np.int64) * BLOCK + positions % BLOCK
    seq_lens = computed + queries
    return StepInputs(
        step=0, req_ids=tuple("abcdefgh"[:rows]), num_reqs=rows, num_tokens=total, num_scheduled=queries,
        num_computed=computed, query_start_loc=starts, req_indices=owner.astype(np.int32),
        query_pos=positions.astype(np.int32), positions=positions, seq_lens=seq_lens,
        logits_indices=starts[1:].astype(np.int64) - 1, discard=np.zeros(rows, bool),
        is_prefilling=np.zeros(rows, bool),
        input_ids=torch.randint(0, 512, (TOKENS,), generator=torch.Generator().manual_seed(1), dtype=torch.int32),
        positions_gpu=torch.from_numpy(np.pad(positions, (0, TOKENS - total))),
        query_start_loc_gpu=torch.from_numpy(np.pad(starts, (0, ROWS - rows), mode="edge")),
        seq_lens_gpu=torch.from_numpy(np.pad(seq_lens, (0, ROWS - rows))),
        groups=(
            GroupTensors(
                torch.from_numpy(table),
                torch.from_numpy(np.pad(slots, (0, TOKENS - total), constant_values=-1)),
            ),
        ),
        logits_indices_gpu=torch.zeros(ROWS, dtype=torch.int64), table_copies=table_copies,
    )  # fmt: skip


def containers_of(inputs):
    """The input buffers as a capture sees them; capturing empties them."""
    names = ("input_ids", "positions_gpu", "query_start_loc_gpu", "seq_lens_gpu", "groups")
    return Containers(*(getattr(inputs, name) for name in names))


class Bench:
    def __init__(self, device="cpu", **switches):
        self.ledger = Ledger()
        self.device = make_device(device, ledger=self.ledger)
        model = load_model("tiny", 0, self.device)
        self.backend = TorchAttention()
        config = RunnerConfig(block_size=BLOCK, max_num_seqs=ROWS, max_num_batched_tokens=TOKENS, **switches)
        layers = model.config.num_hidden_layers
        groups = resolve_groups(config)
        self.cache = allocate_group_caches(self.device, model.config, 1 + ROWS * 4, groups, [0] * layers)
        self.layers = LayerMetadata(self.backend, [LayerSpec(0, None)] * layers)
        self.executor = Executor(self.device, model, self.cache, self.layers, config)

    def run(self, inputs, key=None):
        tokens, rows = inputs.num_tokens, inputs.num_reqs
        padded = (tokens, rows) if key is None else (key.tokens, key.rows or rows)
        plan = ExecutionPlan("none" if key is None else key.mode, "hit", tokens, rows, *padded, False)
        metadata = self.layers.build(common_metadata(inputs, plan), inputs.groups)
        return self.executor.run(plan, inputs, metadata)


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("key", [FULL, PIECEWISE], ids=lambda key: key.mode)
def test_a_padded_replay_gives_the_real_rows_of_an_eager_step(device, key):
    # GIVEN a bench that runs eagerly, and one that captured graphs over the buffers of its inputs
    eager, bench, inputs = Bench(), Bench(device), inputs_of(CHUNKS)
    bench.executor.capture_all([FULL, PIECEWISE], containers_of(inputs))
    assert all(bench.device.captured(each) for each in (FULL, PIECEWISE))
    # WHEN both run three steps of different rows
    for chunks in (CHUNKS, CHUNKS[:2], CHUNKS[1:]):
        step = inputs_of(chunks)
        inputs.positions_gpu.copy_(step.positions_gpu)
        inputs.input_ids.copy_(step.input_ids)
        expected, hidden = eager.run(step), bench.run(step, key)
        # THEN the real rows are the same, and the padding is finite
        assert hidden.shape == (16, 64)
        assert torch.allclose(hidden[: step.num_tokens], expected, atol=2e-5)
        assert bool(hidden.isfinite().all())


def test_capturing_leaves_the_cache_as_it_was():
    bench, inputs = Bench(), inputs_of(CHUNKS)
    bench.run(inputs)
    before = [(layer.key.clone(), layer.value.clone()) for layer in bench.cache.layers]
    bench.executor.capture_all([FULL, PIECEWISE], containers_of(inputs))
    for layer, (key, value) in zip(bench.cache.layers, before, strict=True):
        assert torch.equal(layer.key, key)
        assert torch.equal(layer.value, value)


def test_work_is_what_the_padded_step_computes_and_the_real_rows_read():
    # rows of one query read 10 and 1 keys; (0, 3) has 1+2+3 pairs, (2, 5) has 3+4+5+6+7
    plan = ExecutionPlan("full", "hit", 10, 4, 16, 8, False, 16)
    assert forward_work(plan, inputs_of(CHUNKS)) == Work("forward", 16, 8, kv_tokens=11, prefill_pairs=31)


def test_behind_a_window_a_layer_reads_less():
    # a window of 4: the row of 10 reads 4; (2, 5) has 3+4+4+4+4 pairs; beside a layer that sees all, their mean
    plan, inputs = ExecutionPlan("full", "hit", 10, 4, 16, 8, False, 16), inputs_of(CHUNKS)
    windowed = forward_work(plan, inputs, (4,))
    assert (windowed.kv_tokens, windowed.prefill_pairs) == (4 + 1, 6 + 19)
    both = forward_work(plan, inputs, (None, 4))
    assert (both.kv_tokens, both.prefill_pairs) == ((11 + 5) // 2, (31 + 25) // 2)
    by_hand = [sum(min(length, 4) for length in range(7 - 5 + 1, 7 + 1)), sum(range(1, 4))]
    assert sum(by_hand) == windowed.prefill_pairs


@pytest.mark.parametrize(("slot_mapping", "edges"), [("host", 1), ("torch", 0), ("triton", 0)])
def test_the_forward_reads_the_table_first_only_where_no_kernel_did(slot_mapping, edges):
    bench = Bench("sim", slot_mapping=slot_mapping)
    table = torch.zeros(4, dtype=torch.int32)
    copy = bench.device.copy_to_device(torch.zeros_like(table), table, buffer="block_table")
    bench.run(inputs_of(CHUNKS, table_copies=(copy,)))
    assert [row[3] for row in bench.ledger.rows["edges"]] == [copy] * edges
