"""The explicit mask: what it shows, what its copies are, and attention under it against attention written out."""

import numpy as np
import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.attention.masked_backend import MaskedAttention
from stepscope.runner.attention.masks import make_masks
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import build_runner
from stepscope.workloads.step import CachedRequests, NewRequest, StepDelta

from .test_attention_torch import MIXED as PLAIN
from .test_attention_torch import Batch
from .test_attention_windows import MIXED, Windowed


def masked(reach=None, **switches):
    ledger = Ledger()
    config = RunnerConfig(attention_mask="explicit", max_num_batched_tokens=16, **switches)
    return MaskedAttention(make_masks(config, make_device("cpu", ledger=ledger), ledger).masks, reach), ledger


def run(backend, batch):
    return backend.forward(batch.query, batch.key, batch.value, *batch.caches, backend.build(batch.common()))


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize(("pad_rows", "pad_tokens"), [(0, 0), (3, 5)])
def test_any_mix_of_rows_equals_the_sum_written_out(block_size, pad_rows, pad_tokens):
    batch = Batch(PLAIN, block_size, pad_rows, pad_tokens)
    attended = run(masked()[0], batch)
    assert torch.allclose(attended, batch.expected(), atol=2e-6)
    assert torch.equal(attended[len(batch.slots) :], torch.zeros_like(batch.query[len(batch.slots) :]))


def test_padding_is_zero_under_kernels_that_make_nans_of_what_sees_nothing(monkeypatch):
    right = torch.nn.functional.scaled_dot_product_attention

    def strict(*operands, attn_mask):
        return right(*operands, attn_mask=attn_mask).masked_fill(~attn_mask.any(-1, keepdim=True), torch.nan)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", strict)
    batch = Batch(PLAIN, 4, pad_rows=1, pad_tokens=3)
    assert torch.equal(run(masked()[0], batch)[-3:], torch.zeros_like(batch.query[-3:]))


@pytest.mark.parametrize("window", [1, 5, 24])
def test_windows_whose_blocks_are_gone(window):
    batch = Windowed(MIXED, 4, window)
    assert torch.allclose(run(masked()[0], batch), batch.expected(), atol=2e-6)


def test_a_model_that_looks_back_at_little_has_windows_everywhere():
    batch = Windowed(MIXED, 4, 5)
    batch.window = None
    attended = run(masked(reach=5)[0], batch)
    batch.window = 5
    assert torch.allclose(attended, batch.expected(), atol=2e-6)


def test_a_mask_is_what_the_picture_shows_whatever_its_memory_held():
    # GIVEN a backend whose buffer holds a larger step's mask
    backend, ledger = masked()
    backend.build(Batch([(0, 9), (4, 4)], 4).common())
    # WHEN rows of 3 and 2 keys follow, with a token of padding
    mask = backend.build(Batch([(1, 2), (1, 1)], 4, pad_rows=1, pad_tokens=1).common()).mask
    # THEN queries see themselves and what lies before them in their row, and padding sees nothing
    assert mask.visible.int().tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
    # AND copies are as large as padded queries times keys
    used = [row[3] for row in ledger.rows["buffers"]]
    assert [row[1] for row in ledger.rows["buffers"]] == ["attention_mask"] * 2
    assert used == [(9 + 4) * (9 + 8), 4 * 5]


@pytest.mark.parametrize("graph_mode", ["none", "piecewise"])
def test_each_step_of_a_runner_tells_the_bytes_of_its_mask(graph_mode):
    # GIVEN a runner with two windows, captured for 8 tokens
    ledger = Ledger()
    config = RunnerConfig(
        attention_mask="explicit", graph_mode=graph_mode, capture_sizes=(8,), kv_groups=("full", "window=6"),
        max_num_seqs=4, max_num_batched_tokens=16, max_model_len=64, block_size=4, num_blocks=40,
        metadata_reuse="per_layer", verify_copies=True,
    )  # fmt: skip
    device = make_device("sim", ledger=ledger)
    runner = build_runner(config, device, NullProbe(), ledger)
    assert not ledger.rows["buffers"]  # captures hold padding alone
    # WHEN five tokens of a prompt are computed, and a sixth
    prompt = np.arange(6, dtype=np.int32)
    runner.execute(StepDelta(0, (NewRequest("a", prompt, ((1, 2), (3, 4))),), num_scheduled_tokens={"a": 5}))
    runner.execute(StepDelta(1, cached=CachedRequests(("a",), (None,), (5,), (0,)), num_scheduled_tokens={"a": 1}))
    device.synchronize()
    runner.settle_verdicts()
    # THEN each mask is padded queries times keys, for both layers
    told = sorted((row[1], row[3], row[-1]) for row in ledger.rows["buffers"] if row[1].startswith("attention_mask"))
    first, second = (8, 8) if graph_mode == "piecewise" else (5, 1)
    sizes = sorted([first * 5, second * 6])
    assert told == [(name, size, "none") for name in ("attention_mask", "attention_mask.6") for size in sizes]
