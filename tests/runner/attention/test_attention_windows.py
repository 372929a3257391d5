"""Sliding windows of the reference backend against attention written out token by token, blocks behind them gone."""

import math

import numpy as np
import pytest
import torch
from stepscope.runner.attention import torch_backend
from stepscope.runner.attention.metadata import CommonAttentionMetadata
from stepscope.runner.attention.paged_layout import lay_out
from stepscope.runner.attention.torch_backend import TorchAttention, causal_tail

KV_HEADS, GROUP, DIM = 2, 2, 8
MIXED = [(0, 1), (17, 1), (0, 9), (33, 5), (90, 1), (7, 1), (16, 16), (31, 1), (64, 40)]


class Windowed:
    """Rows of (computed, queries) whose blocks below the window are null blocks, as once they were given back."""

    def __init__(self, rows, block_size, window):
        rng = np.random.default_rng(5)
        torch.manual_seed(5)
        self.window, self.block_size = window, block_size
        computed, queries = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
        self.lens = computed + queries
        counts = [-(-int(length) // block_size) for length in self.lens]
        self.table = np.zeros((len(rows), max(counts)), dtype=np.int32)
        ids = iter(rng.permutation(np.arange(1, 1 + sum(counts))).tolist())
        for row, count in enumerate(counts):
            passed = max(int(computed[row]) - window + 1, 0) // block_size
            self.table[row, passed:count] = [next(ids) for _ in range(count - passed)]
        self.starts = np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
        self.owner = np.repeat(np.arange(len(rows)), queries)
        self.positions = (computed[self.owner] + np.arange(len(self.owner)) - self.starts[self.owner]).astype(np.int64)
        shape = (1 + sum(counts), block_size, KV_HEADS, DIM)
        self.caches = tuple(torch.randn(shape) for _ in range(2))
        for cache in self.caches:
            cache[0] = 1000.0  # whoever looks into the null block is seen
        self.query = torch.randn(len(self.owner), KV_HEADS * GROUP, DIM)
        self.key, self.value = torch.randn(2, len(self.owner), KV_HEADS, DIM)

    def slots(self, row, positions):
        return self.table[row, positions // self.block_size].astype(np.int64) * self.block_size + (
            positions % self.block_size
        )

    def common(self):
        slots = self.slots(self.owner, self.positions)
        device = (self.starts, self.lens, self.table, slots, self.positions)
        return CommonAttentionMetadata(
            len(self.lens), len(self.lens), len(slots), len(slots), int(np.diff(self.starts).max()),
            int(self.lens.max()), *map(torch.from_numpy, device), self.starts, self.lens,
            np.zeros(len(self.lens), "?"), window=self.window,
        )  # fmt: skip

    def run(self):
        backend = TorchAttention()
        return backend.forward(self.query, self.key, self.value, *self.caches, backend.build(self.common()))

    def expected(self):
        out = torch.zeros_like(self.query)
        keys, values = (cache.view(-1, KV_HEADS, DIM) for cache in self.caches)
        for token, (row, position) in enumerate(zip(self.owner, self.positions, strict=True)):
            seen = self.slots(row, np.arange(max(position - self.window + 1, 0), position + 1))
            for head in range(KV_HEADS * GROUP):
                scores = keys[seen, head // GROUP] @ self.query[token, head] / math.sqrt(DIM)
                out[token, head] = torch.softmax(scores, 0) @ values[seen, head // GROUP]
        return out


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("window", [1, 3, 16, 33, 1000])
def test_a_query_sees_itself_and_the_window_before_it(block_size, window):
    batch = Windowed(MIXED, block_size, window)
    assert torch.allclose(batch.run(), batch.expected(), atol=3e-6)


def test_many_queries_behind_a_window_never_make_a_square_mask(monkeypatch):
    # GIVEN 700 queries, more than one block of queries, and a window of 50
    torch.manual_seed(0)
    query, (key, value) = torch.randn(1, 1, 700, DIM), torch.randn(2, 1, 1, 800, DIM)
    masks = []
    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *shape, **kind: masks.append(shape) or ones(*shape, **kind))
    # WHEN they attend, THEN no mask is wider than a block of queries and the window
    attended = causal_tail(query, key, value, 50)
    assert max(width for _, width in masks) <= torch_backend.QUERY_BLOCK + 49
    at = torch.arange(800)
    visible = (at[None, :] <= at[100:, None]) & (at[None, :] > at[100:, None] - 50)
    scores = (query @ key.transpose(2, 3) / math.sqrt(DIM)).masked_fill(~visible, float("-inf"))
    assert torch.allclose(attended, scores.softmax(-1) @ value, atol=3e-6)


def test_only_blocks_that_a_window_reaches_are_gathered():
    # GIVEN a row of 1000 tokens in blocks of 4 and a window of 10: positions 990 .. 999 lie in blocks 247 .. 249
    (bucket,) = lay_out(Windowed([(999, 1)], 4, 10).common(), 4).buckets
    assert bucket.blocks.numel() == 3
    assert bucket.mask.flatten().isfinite().tolist() == [False] * 2 + [True] * 10
    (row,) = lay_out(Windowed([(990, 10)], 4, 10).common(), 4).rows
    assert (row.blocks.numel(), row.num_keys, row.window) == (5, 20, 10)
    (short,) = lay_out(Windowed([(0, 10)], 4, 10).common(), 4).rows
    assert short.window is None


@pytest.mark.parametrize("window", [16, 40])
def test_a_model_s_reach_is_a_window_that_the_step_s_facts_do_not_name(window):
    # GIVEN rows that the runner says see everything, or twice as much as the model looks back at
    batch = Windowed(MIXED, 4, window * 2)
    batch.window = window
    expected = run(TorchAttention(), batch)
    for seen in (None, window * 2):
        batch.window = seen
        # THEN its arithmetic is that of the shorter window
        assert torch.equal(run(TorchAttention(reach=window), batch), expected)
        assert not torch.equal(run(TorchAttention(), batch), expected)


def run(backend, batch):
    """One forward over caches of its own."""
    caches = [cache.clone() for cache in batch.caches]
    return backend.forward(batch.query, batch.key, batch.value, *caches, backend.build(batch.common()))
