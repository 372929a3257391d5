"""Reference attention over a paged KV cache in plain torch operators; the numbers every other backend must give.

Shapes in this file: G queries share a KV head (grouped-query attention), K KV heads, D head_dim, L queries, S keys.
The G queries of a KV head ride on an axis that the operator already has, so keys are never repeated in memory.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from .metadata import CommonAttentionMetadata
from .paged_layout import CacheWrite, PagedLayout, SingleQueryBucket, lay_out

QUERY_BLOCK = 256


class TorchAttentionMetadata:
    """One step's facts, and their cutting, which the first layer asks for and the others reuse.

    The cutting stands in for what a GPU kernel derives by itself, so it happens inside the forward's launch and isn't
    charged to the host's metadata building.
    """

    __slots__ = ("_layout", "_reach", "common")

    def __init__(self, common: CommonAttentionMetadata, reach: int | None = None) -> None:
        self.common = common
        self._reach = reach
        self._layout: PagedLayout | None = None

    def layout(self, block_size: int) -> PagedLayout:
        """The step's work, cut for blocks of `block_size` tokens; the size is the cache's and never changes."""
        if self._layout is None:
            self._layout = lay_out(within_reach(self.common, self._reach), block_size)
        return self._layout


class TorchAttention:
    """The backend `torch`. Scores are scaled by head_dim ** -0.5; padding tokens come out as zeros.

    `reach` is the model's (`ModelConfig`).
    """

    name = "torch"

    def __init__(self, reach: int | None = None) -> None:
        self._reach = reach
        self._key_space, self._value_space = _Workspace(), _Workspace()

    def build(self, common: CommonAttentionMetadata) -> TorchAttentionMetadata:
        """Metadata of one step; `common`'s tensors are read when the forward runs, not here."""
        return TorchAttentionMetadata(common, self._reach)

    @torch.inference_mode()
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object,
    ) -> torch.Tensor:
        """Write key and value by slot, then attend; shapes as in `AttentionBackend.forward`."""
        assert isinstance(metadata, TorchAttentionMetadata), "metadata of another backend"
        layout = metadata.layout(key_cache.shape[1])
        write_cache(key_cache, key, layout.write)
        write_cache(value_cache, value, layout.write)
        out = torch.zeros_like(query, memory_format=torch.contiguous_format)
        grouped = query.reshape(query.shape[0], key.shape[1], -1, query.shape[2])  # [Q', K, G, D]
        grouped_out = out.view(grouped.shape)
        for bucket in layout.buckets:
            keys = self._key_space.gather(key_cache, bucket.blocks)
            values = self._value_space.gather(value_cache, bucket.blocks)
            attended = _single_query(grouped[bucket.tokens], keys, values, bucket)
            grouped_out.index_copy_(0, bucket.tokens, attended)
        for row in layout.rows:
            keys = self._key_space.gather(key_cache, row.blocks)
            values = self._value_space.gather(value_cache, row.blocks)
            kept = keys[: row.num_keys], values[: row.num_keys]
            grouped_out[row.start : row.end] = _many_queries(grouped[row.start : row.end], *kept, row.window)
        return out


def within_reach(common: CommonAttentionMetadata, reach: int | None) -> CommonAttentionMetadata:
    """`common` for queries that look back at no more than `reach` positions."""
    if reach is None or (common.window is not None and common.window <= reach):
        return common
    return replace(common, window=reach)


class _Workspace:
    """Memory for gathered blocks, kept between calls: fresh pages would cost more than the copy into them."""

    def __init__(self) -> None:
        self._flat = torch.empty(0)

    def gather(self, cache: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
        """Blocks [n] of a cache as one array [n * block_size, K, D], valid until the next call."""
        pages = cache.view(cache.shape[0], -1)  # a block is one row, so each is one memory copy
        size = blocks.numel() * pages.shape[1]
        if self._flat.numel() < size or self._flat.dtype != cache.dtype or self._flat.device != cache.device:
            self._flat = torch.empty(size, dtype=cache.dtype, device=cache.device)
        out = self._flat[:size].view(-1, pages.shape[1])
        return torch.index_select(pages, 0, blocks, out=out).view(-1, *cache.shape[2:])


def write_cache(cache: torch.Tensor, new: torch.Tensor, write: CacheWrite) -> None:
    """Put what each token of the stream brings, [Q', K, D], where `write` says."""
    slots = cache.view(-1, *cache.shape[2:])
    slots[write.slots] = new if write.tokens is None else new[write.tokens]


def _single_query(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bucket: SingleQueryBucket
) -> torch.Tensor:
    """[n, K, G, D] -> the same. G queries of one position see the same keys: they take the place of L."""
    key, value = (
        gathered.view(query.shape[0], -1, *gathered.shape[1:])[:, : bucket.max_len].transpose(1, 2)
        for gathered in (keys, values)
    )
    mask = None if bucket.mask is None else bucket.mask.to(query.dtype)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _many_queries(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, window: int | None
) -> torch.Tensor:
    """[L, K, G, D] -> the same, for the last L of S positions; keys and values [S, K, D]."""
    queries = query.permute(1, 2, 0, 3)  # K as batch, G as heads
    shape = (-1, query.shape[2], -1, -1)
    key, value = (gathered.transpose(0, 1).unsqueeze(1).expand(*shape) for gathered in (keys, values))
    return causal_tail(queries, key, value, window).permute(2, 0, 1, 3)


def causal_tail(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int | None = None
) -> torch.Tensor:
    """Attention of the last L of S positions, query [K, G, L, D] against key and value [K, G, S, D].

    With a `window` a query sees itself and the window - 1 positions before it. Memory stays linear in L and S: there is
    never an L x S mask.
    """
    history = key.shape[2] - query.shape[2]
    if window is not None:
        return _masked_blocks(query, key, value, history, window)
    if history == 0:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    if query.device.type == "cpu":
        return _merge_history(query, key, value, history)
    return _masked_blocks(query, key, value, history)


def _merge_history(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, history: int) -> torch.Tensor:
    """Attend to the history without a mask and to the chunk causally, then merge by the log of the score sums.

    With l = log(sum(exp(scores))) of each part, the whole is (exp(l1) o1 + exp(l2) o2) / (exp(l1) + exp(l2)).
    The flash operator is called by its own name because the public function doesn't return l.
    """
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    old, old_lse = flash(query, key[:, :, :history], value[:, :, :history], 0.0, False)
    new, new_lse = flash(query, key[:, :, history:], value[:, :, history:], 0.0, True)
    old_share = torch.sigmoid(old_lse - new_lse).unsqueeze(-1).to(old.dtype)
    merged: torch.Tensor = torch.lerp(new, old, old_share)
    return merged


def _masked_blocks(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, history: int, window: int | None = None
) -> torch.Tensor:
    """The same in blocks of queries with a mask each, from public operators only: for windows, and for devices without
    the above.
    """
    out = torch.empty_like(query)
    for start in range(0, query.shape[2], QUERY_BLOCK):
        end = min(start + QUERY_BLOCK, query.shape[2])
        seen = history + end
        first = 0 if window is None else max(history + start - window + 1, 0)
        mask = torch.ones(end - start, seen - first, dtype=torch.bool, device=query.device)
        mask = mask.tril_(history + start - first)
        if window is not None:
            mask = mask.triu_(history + start - first - window + 1)
        out[:, :, start:end] = F.scaled_dot_product_attention(
            query[:, :, start:end], key[:, :, first:seen], value[:, :, first:seen], attn_mask=mask
        )
    return out
