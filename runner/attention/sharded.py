"""Attention over the KV shards of all ranks of decode context parallelism, side by side in one process.

What a rank would do on its own GPU is done for one rank after the other: write the keys and values that it holds, let
every query see those, and keep the log of the sum of exponentials beside the result. Then the ranks' results are
merged, which is exact. Nothing is sent: what n GPUs would gather and reduce lies in one memory here, so a run says what
is computed and what the host prepares, and nothing about what collectives cost or what n GPUs would gain.

Shapes: N ranks, K KV heads, G queries that share one, D head_dim, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from ..shards import Shard, Shards
from .metadata import CommonAttentionMetadata
from .paged_layout import CacheWrite, ManyQueryRow, PagedLayout, SingleQueryBucket, lay_out

QUERY_BLOCK = 256
"""Queries whose scores are in memory at a time."""

_Part = tuple[slice | torch.Tensor, torch.Tensor, torch.Tensor]
"""Tokens of the stream, their attention over one rank's keys [n, K, G, D], and its log-sum-exp [n, K, G]."""


class ShardedMetadata:
    """One step's facts, and how each rank's work is cut up, which the first layer asks for and the others reuse."""

    __slots__ = ("_layouts", "_limits", "_shards", "common")

    def __init__(self, common: CommonAttentionMetadata, shards: Shards) -> None:
        self.common = common
        self._shards = shards
        self._layouts: tuple[PagedLayout, ...] = ()
        self._limits: tuple[torch.Tensor, ...] = ()

    def layouts(self, block_size: int) -> tuple[PagedLayout, ...]:
        """Each rank's work, in its own blocks of `block_size` tokens and by its own sequence lengths."""
        if not self._layouts:
            self._layouts = tuple(lay_out(self._of_rank(shard), block_size) for shard in self._shards)
        return self._layouts

    def limits(self, rank: int) -> torch.Tensor:
        """[Q'] how many of its sequence's keys on `rank` each token sees: those up to its own position."""
        if not self._limits:
            seen = self.common.positions + 1
            self._limits = tuple(shard.lengths(seen) for shard in self._shards)
        return self._limits[rank]

    def _of_rank(self, shard: Shard) -> CommonAttentionMetadata:
        common = self.common
        slots = common.slot_mapping[shard.rank]
        return replace(common, seq_lens=shard.lengths(common.seq_lens), slot_mapping=slots)


class ShardedAttention:
    """The backend `torch` with `dcp`. Caches are [N, blocks, block_size, K, D], slots [N, Q'].

    The arithmetic is float32, and padding tokens come out as zeros.
    """

    name = "torch"

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def build(self, common: CommonAttentionMetadata) -> ShardedMetadata:
        """Metadata of one step; `common`'s tensors are read when the forward runs, not here."""
        return ShardedMetadata(common, self._shards)

    @torch.inference_mode()
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object,
    ) -> torch.Tensor:
        """Write each rank's keys and values, attend rank by rank, merge. Shapes as in `AttentionBackend.forward`, the
        caches' first axis being the ranks.
        """
        assert isinstance(metadata, ShardedMetadata), "metadata of another backend"
        grouped = query.reshape(query.shape[0], key.shape[1], -1, query.shape[2]).to(torch.float32)  # [Q', K, G, D]
        outs = grouped.new_zeros((self._shards.ranks, *grouped.shape))
        sums = grouped.new_full(outs.shape[:-1], float("-inf"))
        for rank, layout in enumerate(metadata.layouts(key_cache.shape[2])):
            keys, values = key_cache[rank], value_cache[rank]
            _write(keys, key, layout.write)
            _write(values, value, layout.write)
            for tokens, out, log_sum in _attend(grouped, keys, values, layout, metadata.limits(rank)):
                outs[rank][tokens], sums[rank][tokens] = out, log_sum
        return merge_ranks(outs, sums).view(query.shape).to(query.dtype)


def merge_ranks(outs: torch.Tensor, log_sums: torch.Tensor) -> torch.Tensor:
    """[N, ..., D] results over a part of the keys each and their [N, ...] log-sum-exp -> [..., D] over all keys.

    With l = log(sum(exp(scores))) of each part, the whole is sum(exp(l) * o) / sum(exp(l)). A part without a key has
    l = -inf; where no part has one (padding) the result is 0.
    """
    top = log_sums.amax(0)
    weights = torch.exp(log_sums - top.masked_fill(top == float("-inf"), 0.0))
    total = weights.sum(0)
    merged = (outs * weights.unsqueeze(-1)).sum(0)
    return merged / total.masked_fill(total == 0.0, 1.0).unsqueeze(-1)


def _write(cache: torch.Tensor, new: torch.Tensor, write: CacheWrite) -> None:
    slots = cache.view(-1, *cache.shape[2:])
    slots[write.slots] = new if write.tokens is None else new[write.tokens]


def _attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, layout: PagedLayout, limits: torch.Tensor
) -> Iterator[_Part]:
    """The parts of one rank; tokens that see none of its keys may stand in no part."""
    for bucket in layout.buckets:
        yield _bucket(query, keys, values, bucket)
    for row in layout.rows:
        yield from _row(query, keys, values, row, limits)


def _bucket(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bucket: SingleQueryBucket
) -> _Part:
    """n rows with one query each, which sees all of its row's keys: [n, K, G, D] against [n, K, S, D]."""
    count = bucket.tokens.numel()
    key, value = (
        cache[bucket.blocks].view(count, -1, *cache.shape[2:])[:, : bucket.max_len].transpose(1, 2).to(query.dtype)
        for cache in (keys, values)
    )
    scores = _scores(query[bucket.tokens], key)
    if bucket.mask is not None:
        scores += bucket.mask
    return bucket.tokens, *_weigh(scores, value)


def _row(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, row: ManyQueryRow, limits: torch.Tensor
) -> Iterator[_Part]:
    """A row's queries in blocks, each query up to its own limit: [K, G, L, D] against [K, 1, S, D]."""
    key, value = (
        cache[row.blocks].flatten(0, 1)[: row.num_keys].transpose(0, 1).unsqueeze(1).to(query.dtype)
        for cache in (keys, values)
    )
    at = torch.arange(row.num_keys, device=query.device)
    for start in range(row.start, row.end, QUERY_BLOCK):
        tokens = slice(start, min(start + QUERY_BLOCK, row.end))
        scores = _scores(query[tokens].permute(1, 2, 0, 3), key)
        out, log_sum = _weigh(scores.masked_fill_(at >= limits[tokens, None], float("-inf")), value)
        yield tokens, out.permute(2, 0, 1, 3), log_sum.permute(2, 0, 1)


def _scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    return torch.matmul(query, key.transpose(-1, -2)).mul_(query.shape[-1] ** -0.5)


def _weigh(scores: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax of [..., S] over the keys' values, and the log-sum-exp; a query without a key gets 0 and -inf."""
    log_sum = scores.logsumexp(-1)
    finite = log_sum.masked_fill(log_sum == float("-inf"), 0.0)
    return torch.matmul(torch.exp(scores - finite.unsqueeze(-1)), value), log_sum
