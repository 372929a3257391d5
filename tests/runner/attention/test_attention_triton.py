"""The Triton backend against the torch reference. On a GPU directly; elsewhere through test_triton_interpreted.py."""

import dataclasses
import os

import numpy as np
import pytest
import torch
from stepscope.runner.attention.metadata import CommonAttentionMetadata
from stepscope.runner.attention.torch_backend import TorchAttention

pytest.importorskip("triton")
KV_HEADS, HEAD_DIM = 2, 16
ON_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if ON_GPU else "cpu"
runs_kernels = pytest.mark.skipif(not (ON_GPU or INTERPRETED), reason="see test_triton_interpreted.py")

CASES = {
    "mixed": ([(9, 1), (0, 5), (33, 3)], 4, 0, 0),
    "decode": ([(0, 1), (5, 1), (40, 1)], 4, 0, 0),
    "padded decode": ([(12, 1), (3, 1)], 16, 2, 2),
    "padded mixed": ([(2, 6), (0, 1)], 1, 2, 5),
    "chunk across a tile": ([(20, 14)], 4, 0, 0),  # its first query must not see the rest of the first 32 keys
}
if ON_GPU:  # minutes in the interpreter
    CASES["long prompt"] = ([(50, 700), (0, 66), (3000, 1)], 16, 0, 0)
    CASES["long decode"] = ([(5000, 1), (0, 1)], 16, 0, 0)


def make_batch(rows, block_size, pad_rows, pad_tokens, group=2, seed=0):
    """(common metadata, query, key, value, key cache, value cache) on DEVICE; history lies in the caches."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    computed, queries = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    lens = computed + queries
    counts = [-(-int(n) // block_size) for n in lens]
    ids = rng.permutation(np.arange(1, 1 + sum(counts)))
    table = np.zeros((len(rows) + pad_rows, max(counts) + 2), np.int32)
    for row, part in enumerate(np.split(ids, np.cumsum(counts)[:-1])):
        table[row, : len(part)] = part
    starts = np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
    owner = np.repeat(np.arange(len(rows)), queries)
    positions = (computed[owner] + np.arange(len(owner)) - starts[owner]).astype(np.int64)
    slots = table[owner, positions // block_size].astype(np.int64) * block_size + positions % block_size
    tokens = len(owner) + pad_tokens
    shape = (1 + sum(counts), block_size, KV_HEADS, HEAD_DIM)
    caches = [torch.randn(shape), torch.randn(shape)]
    flat = [torch.randn(tokens, KV_HEADS * group, HEAD_DIM), *torch.randn(2, tokens, KV_HEADS, HEAD_DIM)]
    padded_lens = np.pad(lens, (0, pad_rows)).astype(np.int32)
    padded_starts = np.pad(starts, (0, pad_rows), mode="edge")
    on_device = [padded_starts, padded_lens, table, np.pad(slots, (0, pad_tokens), constant_values=-1),
                 np.pad(positions, (0, pad_tokens))]
    common = CommonAttentionMetadata(
        len(padded_lens), len(rows), tokens, len(owner), int(queries.max()), int(lens.max()),
        *(torch.from_numpy(array).to(DEVICE) for array in on_device), padded_starts, padded_lens,
        np.zeros(len(padded_lens), "?"), uniform=bool((queries == 1).all()),
    )  # fmt: skip
    return common, *(tensor.to(DEVICE) for tensor in (*flat, *caches))


def run(backend, batch):
    common, query, key, value, *caches = batch
    caches = [cache.clone() for cache in caches]
    out = backend.forward(query, key, value, *caches, backend.build(common))
    return out[: common.num_actual_tokens], caches


@runs_kernels
@pytest.mark.parametrize("group", [1, 3, 4] if ON_GPU else [3])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_reference(name, group, monkeypatch):
    from stepscope.runner.attention import triton_backend
    from stepscope.runner.attention.triton_backend import TritonAttention

    if not ON_GPU:  # a program costs milliseconds in the interpreter: four splits a row show what sixteen do
        monkeypatch.setattr(triton_backend, "MAX_SPLITS", 4)
    batch = make_batch(*CASES[name], group=group)
    expected, expected_caches = run(TorchAttention(), batch)
    found, caches = run(TritonAttention(), batch)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for cache, wanted in zip(caches, expected_caches, strict=True):
        assert torch.equal(cache, wanted), "keys and values go where the slots say, padding goes nowhere"


def windowed(batch, window):
    """Plain attention, query by query, of which each sees the last `window` positions up to its own."""
    common, query, _, _, keys, values = batch
    out, block_size = torch.zeros_like(query), keys.shape[1]
    for row, length in enumerate(common.seq_lens_cpu):
        first, end = common.query_start_loc_cpu[row : row + 2]
        for token in range(first, end):
            position = length - (end - token)
            seen = torch.arange(max(position - window + 1, 0), position + 1, device=DEVICE)
            slots = common.block_table[row, seen // block_size].long() * block_size + seen % block_size
            key, value = (cache.flatten(0, 1)[slots] for cache in (keys, values))
            group = query[token].view(KV_HEADS, -1, HEAD_DIM)
            scores = torch.einsum("kgd,skd->kgs", group, key) * HEAD_DIM**-0.5
            out[token] = torch.einsum("kgs,skd->kgd", scores.softmax(-1), value).flatten(0, 1)
    return out[: common.num_actual_tokens]


@runs_kernels
@pytest.mark.parametrize("window", [1, 7, 40])
@pytest.mark.parametrize("name", ["mixed", "decode", "across tiles"])
def test_a_window_hides_what_is_further_back(name, window, monkeypatch):
    """Windows within a tile, across tiles and longer than most rows; blocks before the window may be gone."""
    from stepscope.runner.attention import triton_backend
    from stepscope.runner.attention.triton_backend import TritonAttention

    if not ON_GPU:  # two splits a row meet every edge of a window; four are in the test above
        monkeypatch.setattr(triton_backend, "MAX_SPLITS", 2)
    rows = {"across tiles": [(70, 40), (0, 1)], **{key: case[0] for key, case in CASES.items()}}[name]
    batch = make_batch(rows, 4, 0, 0)
    common = dataclasses.replace(batch[0], window=window)
    found, caches = run(TritonAttention(), (common, *batch[1:]))
    expected = windowed((*batch[:4], *caches), window)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for row, (computed, _) in enumerate(rows):  # the pages that nobody sees any more go back to the pool
        common.block_table[row, : max(computed - window + 1, 0) // 4] = 0
    for cache in caches:
        cache[0] = 1e4
    again = TritonAttention().attend(batch[1], *caches, TritonAttention().build(common))
    assert torch.equal(again[: common.num_actual_tokens], found)


@runs_kernels
@pytest.mark.parametrize("name", ["decode", "padded decode"])
def test_one_split_writes_its_result_itself(name, monkeypatch):
    """Rows enough to fill the GPU are not split: no partial results, no reduction; a padding row comes out as zeros."""
    from stepscope.runner.attention import triton_backend
    from stepscope.runner.attention.triton_backend import TritonAttention

    monkeypatch.setattr(triton_backend, "MAX_SPLITS", 1)
    monkeypatch.setattr(triton_backend, "reduce_splits", None)
    batch = make_batch(*CASES[name], group=2)
    expected, _ = run(TorchAttention(), batch)
    found, _ = run(TritonAttention(), batch)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    rows = batch[0].num_reqs
    whole = TritonAttention().attend(batch[1][:rows], *batch[4:], TritonAttention().build(batch[0]))
    assert not bool(whole[batch[0].num_actual_reqs :].any())


@pytest.mark.parametrize(("rows", "splits"), [(1, 32), (8, 8), (32, 2), (64, 1), (256, 1)])
def test_splits_fill_the_gpu_and_no_more(rows, splits):
    from stepscope.runner.attention.triton_backend import splits_for

    assert splits_for(rows, kv_heads=8) == splits


@runs_kernels
def test_tokens_behind_the_rows_of_a_decode_come_out_as_zeros(monkeypatch):
    """A piecewise graph pads tokens only: five tokens, two rows. Lengths behind the rows are somebody else's memory."""
    from stepscope.runner.attention import triton_backend
    from stepscope.runner.attention.triton_backend import TritonAttention

    monkeypatch.setattr(triton_backend, "MAX_SPLITS", 2)
    common, query, key, value, *caches = make_batch([(12, 1), (3, 1)], 16, 0, 3)
    behind = torch.full((8,), 4000, dtype=torch.int32, device=DEVICE)
    behind[:2] = common.seq_lens
    common = dataclasses.replace(common, seq_lens=behind[:2])
    backend = TritonAttention()
    out = backend.forward(query, key, value, *caches, backend.build(common))
    assert common.uniform
    assert bool(out[:2].any(-1).all())
    assert not bool(out[2:].any())


@runs_kernels
def test_slots_beyond_32_bits_of_elements():
    """Case 6: slot 1,023,999 of 32 heads x 128 is element 4,194,299,904; the address arithmetic must not wrap."""
    from .slot_kernel import offset_of_slot  # imports Triton

    out = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    offset_of_slot[(1,)](torch.tensor([63_999], dtype=torch.int32, device=DEVICE), 15, 16, 32 * 128, out)
    assert out.item() == 4_194_299_904
