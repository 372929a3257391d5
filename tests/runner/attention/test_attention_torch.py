"""The reference backend against attention written out token by token."""

import math

import numpy as np
import pytest
import torch
from stepscope.runner.attention import paged_layout, torch_backend
from stepscope.runner.attention.metadata import CommonAttentionMetadata
from stepscope.runner.attention.paged_layout import lay_out
from stepscope.runner.attention.torch_backend import TorchAttention, causal_tail

KV_HEADS, GROUP, WIDTH = 2, 3, 8


class Batch:
    """Rows of (computed, queries) over scattered blocks, with random history in the cache."""

    def __init__(self, rows, block_size, pad_rows=0, pad_tokens=0, seed=0):
        rng = np.random.default_rng(seed)
        self.block_size = block_size
        self.computed, self.queries = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
        lens = (self.computed + self.queries).astype(np.int32)
        blocks = [-(-int(length) // block_size) for length in lens]
        self.num_blocks = 1 + sum(blocks)
        ids = iter(rng.permutation(np.arange(1, self.num_blocks)).astype(np.int32).tolist())
        self.table = np.zeros((len(rows) + pad_rows, max(blocks) + 2), dtype=np.int32)
        for row, count in enumerate(blocks):
            self.table[row, :count] = [next(ids) for _ in range(count)]
        self.lens = np.pad(lens, (0, pad_rows))
        starts = np.concatenate([[0], np.cumsum(self.queries)]).astype(np.int32)
        self.starts = np.pad(starts, (0, pad_rows), mode="edge")
        owner = np.repeat(np.arange(len(rows)), self.queries)
        self.positions = self.computed[owner] + np.arange(len(owner)) - self.starts[owner]
        self.slots = self.slot(owner, self.positions)
        torch.manual_seed(seed)
        tokens = len(owner) + pad_tokens
        self.query = torch.randn(tokens, KV_HEADS * GROUP, WIDTH)
        self.key, self.value = torch.randn(2, tokens, KV_HEADS, WIDTH)
        shape = (self.num_blocks, block_size, KV_HEADS, WIDTH)
        # What lies behind a row's length is large, so that a mask that lets it through is seen.
        self.caches = (torch.full(shape, 50.0), torch.full(shape, 1000.0))
        for row, history in enumerate(self.computed):
            slots = self.slot(np.full(history, row), np.arange(history))
            for cache in self.caches:
                cache.view(-1, KV_HEADS, WIDTH)[slots] = torch.randn(history, KV_HEADS, WIDTH)
        self.pad_tokens, self.pad_rows = pad_tokens, pad_rows

    def slot(self, rows, positions):
        blocks = self.table[rows, positions // self.block_size].astype(np.int64)
        return blocks * self.block_size + positions % self.block_size

    def common(self):
        slots = np.pad(self.slots, (0, self.pad_tokens), constant_values=-1)
        positions = np.pad(self.positions.astype(np.int64), (0, self.pad_tokens))
        device = (self.starts, self.lens, self.table, slots, positions)
        return CommonAttentionMetadata(
            len(self.lens), len(self.queries), len(slots), len(self.slots), int(self.queries.max()),
            int(self.lens.max()), *map(torch.from_numpy, device), self.starts, self.lens, np.zeros(len(self.lens), "?"),
        )  # fmt: skip

    def run(self):
        backend = TorchAttention()
        return backend.forward(self.query, self.key, self.value, *self.caches, backend.build(self.common()))

    def expected(self):
        """One query and one head at a time, over keys that were written before."""
        out = torch.zeros_like(self.query)
        keys, values = (cache.view(-1, KV_HEADS, WIDTH) for cache in self.caches)
        for row in range(len(self.queries)):
            for token in range(self.starts[row], self.starts[row + 1]):
                seen = np.arange(self.positions[token] + 1)
                slots = self.slot(np.full(len(seen), row), seen)
                for head in range(KV_HEADS * GROUP):
                    scores = keys[slots, head // GROUP] @ self.query[token, head] / math.sqrt(WIDTH)
                    out[token, head] = torch.softmax(scores, 0) @ values[slots, head // GROUP]
        return out


MIXED = [(0, 1), (17, 1), (0, 9), (33, 5), (90, 1), (7, 1), (16, 16), (31, 1)]


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize(("pad_rows", "pad_tokens"), [(0, 0), (3, 5)])
def test_any_mix_of_rows_equals_the_sum_written_out(block_size, pad_rows, pad_tokens):
    batch = Batch(MIXED, block_size, pad_rows, pad_tokens)
    attended = batch.run()
    assert torch.allclose(attended, batch.expected(), atol=2e-6)
    assert torch.equal(attended[len(batch.slots) :], torch.zeros(pad_tokens, KV_HEADS * GROUP, WIDTH))


def test_keys_land_in_their_slots_and_nowhere_else():
    # GIVEN a padded batch and a cache of known content
    batch = Batch(MIXED, 4, pad_rows=1, pad_tokens=6)
    before = batch.caches[0].clone().view(-1, KV_HEADS, WIDTH)
    # WHEN it runs
    batch.run()
    # THEN its slots hold the new keys and all others, the null block's and the last one among them, what they held
    after = batch.caches[0].view(-1, KV_HEADS, WIDTH)
    before[batch.slots] = batch.key[: len(batch.slots)]
    assert torch.equal(after, before)


def test_a_step_of_padding_alone_writes_nothing_and_gives_zeros():
    batch = Batch([(3, 1)], 4, pad_rows=2, pad_tokens=4)
    before = batch.caches[1].clone()
    batch.slots = np.array([-1])
    batch.starts[:] = 0
    batch.lens[:] = 0
    assert torch.equal(batch.run(), torch.zeros_like(batch.query))
    assert torch.equal(batch.caches[1], before)


def test_a_backend_keeps_no_trace_of_the_step_before():
    backend = TorchAttention()
    for seed, rows in enumerate([[(100, 1), (5, 1)], [(2, 1)], [(0, 64)], [(1, 3)]]):
        batch = Batch(rows, 4, seed=seed)
        metadata = backend.build(batch.common())
        attended = backend.forward(batch.query, batch.key, batch.value, *batch.caches, metadata)
        assert torch.allclose(attended, batch.expected(), atol=2e-6)


@pytest.mark.parametrize("history", [0, 1, 37])
def test_both_ways_to_attend_to_a_history_agree(history):
    # GIVEN 700 queries behind a history, more than one block of queries
    torch.manual_seed(0)
    query = torch.randn(2, 3, 700, WIDTH)
    key, value = torch.randn(2, 2, 1, history + 700, WIDTH).expand(2, 2, 3, history + 700, WIDTH)
    # WHEN history and chunk are merged, or each block of queries is masked
    merged = causal_tail(query, key, value)
    masked = torch_backend._masked_blocks(query, key, value, history)
    # THEN the results are the same
    assert torch.allclose(merged, masked, atol=2e-6)


def test_a_history_of_65536_positions_keeps_its_precision():
    tokens = 1 << 16
    query = torch.zeros(1, 1, 16, WIDTH)
    key = torch.zeros(1, 1, tokens, WIDTH)
    value = torch.arange(tokens, dtype=torch.float32)[None, None, :, None].expand(1, 1, tokens, WIDTH)
    last = causal_tail(query, key, value)[0, 0, -1, 0]
    assert float(last) == pytest.approx((tokens - 1) / 2, rel=1e-4)


def test_rows_are_bucketed_by_length_and_each_once():
    lens = [10, 1000, 12, 990, 11, 100_000, 5000]
    batch = Batch([(length - 1, 1) for length in lens], 16)
    layout = lay_out(batch.common(), 16)
    assert [bucket.tokens.tolist() for bucket in layout.buckets] == [[0, 4, 2], [3, 1], [6], [5]]
    assert [bucket.max_len for bucket in layout.buckets] == [12, 1000, 5000, 100_000]
    assert [bucket.mask is None for bucket in layout.buckets] == [False, False, True, True]


def test_a_bucket_is_bounded_in_gathered_keys(monkeypatch):
    monkeypatch.setattr(paged_layout, "MAX_BUCKET_KV_TOKENS", 100)
    batch = Batch([(29, 1)] * 7, 4)
    layout = lay_out(batch.common(), 4)
    assert [len(bucket.tokens) for bucket in layout.buckets] == [3, 3, 1]
    assert torch.allclose(batch.run(), batch.expected(), atol=2e-6)
