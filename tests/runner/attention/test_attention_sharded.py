"""Attention over shards against attention over one cache that holds everything, and the merging of parts alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from stepscope.runner.attention.metadata import CommonAttentionMetadata
from stepscope.runner.attention.sharded import ShardedAttention, merge_ranks
from stepscope.runner.attention.torch_backend import TorchAttention
from stepscope.runner.shards import Shards

KV_HEADS, GROUP, DIM, BLOCKS = 2, 2, 16, 40


def common(query_lens, seq_lens, table, slots, padding):
    """A step whose last `padding` tokens are nobody's."""
    starts = np.concatenate([[0], np.cumsum(query_lens)]).astype(np.int32)
    spans = zip(seq_lens, query_lens, strict=True)
    where = np.concatenate([np.arange(length - count, length) for length, count in spans] + [np.zeros(padding)])
    lens = np.asarray(seq_lens, dtype=np.int32)
    return CommonAttentionMetadata(
        num_reqs=lens.size, num_actual_reqs=lens.size, num_tokens=int(starts[-1]) + padding,
        num_actual_tokens=int(starts[-1]), max_query_len=max(query_lens), max_seq_len=int(lens.max()),
        query_start_loc=torch.from_numpy(starts), seq_lens=torch.from_numpy(lens),
        block_table=torch.from_numpy(table.astype(np.int32)), slot_mapping=slots,
        positions=torch.from_numpy(where.astype(np.int64)), query_start_loc_cpu=starts, seq_lens_cpu=lens,
        is_prefilling=np.zeros(lens.size, dtype=np.bool_),
    )  # fmt: skip


def random_batch(seed):
    """(shards, block size of all ranks, batch over one cache): decodes, chunks, a prompt, a row without a token."""
    rng = np.random.default_rng(seed)
    ranks, interleave = int(rng.integers(2, 5)), int(rng.choice([1, 2, 4]))
    size = ranks * interleave * int(rng.integers(1, 3))
    query_lens = [1, 1, int(rng.integers(2, 9)), int(rng.integers(1, 300)), 0, 1]
    seq_lens = [count + int(rng.integers(0, 60)) for count in query_lens]
    seq_lens[0] = 1  # less than there are ranks
    seq_lens[4] = 0
    width = -(-max(seq_lens) // size)
    table = 1 + rng.permutation(len(seq_lens) * width).reshape(len(seq_lens), width)
    slots = [
        int(table[row][position // size]) * size + position % size
        for row, (length, count) in enumerate(zip(seq_lens, query_lens, strict=True))
        for position in range(length - count, length)
    ]
    batch = common(query_lens, seq_lens, table, torch.tensor([*slots, -1, -1]), padding=2)
    return Shards(ranks, interleave), size, int(table.max()) + 1, batch


@pytest.mark.parametrize("seed", range(8))
def test_shards_together_see_what_one_cache_holds(seed):
    # GIVEN a batch whose history lies in one cache, and the same history dealt to ranks
    shards, size, blocks, batch = random_batch(seed)
    torch.manual_seed(seed)
    caches = [torch.randn(blocks, size, KV_HEADS, DIM) for _ in range(2)]
    cut = [torch.zeros(shards.ranks, blocks, size // shards.ranks, KV_HEADS, DIM) for _ in range(2)]
    everywhere = torch.arange(blocks * size)
    for shard, *owns in zip(shards, *cut, strict=True):
        own = shard.slots(everywhere)
        for cache, mine in zip(caches, owns, strict=True):
            mine.view(-1, KV_HEADS, DIM)[own[own >= 0]] = cache.view(-1, KV_HEADS, DIM)[own >= 0]
    query = torch.randn(batch.num_tokens, KV_HEADS * GROUP, DIM)
    key, value = (torch.randn(batch.num_tokens, KV_HEADS, DIM) for _ in range(2))
    # WHEN new tokens are written and attended, THEN the result is the same but for rounding
    plain = TorchAttention()
    wanted = plain.forward(query, key, value, *caches, plain.build(batch))
    sharded = ShardedAttention(shards)
    slots = torch.stack([shard.slots(batch.slot_mapping) for shard in shards])
    dealt = replace(batch, slot_mapping=slots)
    found = sharded.forward(query, key, value, *cut, sharded.build(dealt))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=2e-6)
    assert not found[-2:].any(), "padding comes out as zeros"
    # AND each rank has written its own
    for shard, *owns in zip(shards, *cut, strict=True):
        own = shard.slots(everywhere)
        for cache, mine in zip(caches, owns, strict=True):
            assert torch.equal(mine.view(-1, KV_HEADS, DIM)[own[own >= 0]], cache.view(-1, KV_HEADS, DIM)[own >= 0])


def test_parts_are_merged_by_what_they_weigh():
    # GIVEN two parts of one softmax, a part without keys, and a token that nobody sees
    scores, values = torch.tensor([1.0, -2.0, 500.0, 499.0]), torch.tensor([3.0, 5.0, 7.0, 11.0])
    parts = [slice(0, 3), slice(3, 4)]
    outs = [[torch.softmax(scores[part], 0) @ values[part], 0.0] for part in parts] + [[0.0, 0.0]]
    none = float("-inf")
    sums = [[float(scores[part].logsumexp(0)), none] for part in parts] + [[none, none]]
    merged = merge_ranks(torch.tensor(outs).unsqueeze(-1), torch.tensor(sums))
    # THEN they are the softmax of all, and nothing is 0
    assert merged.flatten().tolist() == pytest.approx([float(torch.softmax(scores, 0) @ values), 0.0])
