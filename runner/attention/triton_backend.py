"""Paged attention by Triton kernels: one launch for mixed batches, split-KV for batches of single queries.

Graph-safe: what a kernel needs of the step it reads from the metadata's device tensors, whose addresses are fixed. The
choice between the two kernels is made from what a captured graph keeps constant: `common.uniform`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton

from ..kernels.kv_write import kv_write
from ..kernels.paged_attention import mixed_attention
from ..kernels.split_decode import reduce_splits, split_decode
from .metadata import CommonAttentionMetadata

PROGRAMS_WANTED = 264
"""Two for each of an H200's 132 multiprocessors: splitting further buys nothing (splits in kernel_sweep.json)."""
MAX_SPLITS = 32
MIN_DOT_ROWS = 16
"""tl.dot needs at least 16 rows; fewer queries are padded in registers."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """What a program holds: `query_rows` query tokens x heads of a group (mixed kernel), `kv_tokens` keys a turn."""

    query_rows: int
    kv_tokens: int
    num_warps: int
    num_stages: int


FLOAT32_TILES = Tiles(query_rows=64, kv_tokens=32, num_warps=4, num_stages=3)
"""For both kernels: IEEE products run on the ordinary units, from registers."""


@dataclass(frozen=True, slots=True)
class TritonAttentionMetadata:
    """Device tensors of the step (shapes as in CommonAttentionMetadata) and the launch shape."""

    common: CommonAttentionMetadata
    single_queries: bool


class TritonAttention:
    """The backend `triton`. float32 inputs use IEEE products, so that its tokens equal the reference's."""

    name = "triton"

    def build(self, common: CommonAttentionMetadata) -> TritonAttentionMetadata:
        """Metadata of one step; tensors are read when the kernels run."""
        return TritonAttentionMetadata(common, single_queries=common.uniform)

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object,
    ) -> torch.Tensor:
        """Write key and value by slot, then attend; shapes as in `AttentionBackend.forward`."""
        assert isinstance(metadata, TritonAttentionMetadata), "metadata of another backend"
        kv_heads, head_dim = key.shape[1:]
        kv_write[(key.shape[0], kv_heads)](
            key, value, key_cache, value_cache, metadata.common.slot_mapping,
            key.stride(0), value.stride(0), KV_HEADS=kv_heads, HEAD_DIM=head_dim,
        )
        return self.attend(query, key_cache, value_cache, metadata)

    def slots(self, metadata: object) -> torch.Tensor:
        """Where each token's keys and values go, [Q'] int64; for callers whose own kernel writes the cache."""
        assert isinstance(metadata, TritonAttentionMetadata), "metadata of another backend"
        return metadata.common.slot_mapping

    def attend(
        self, query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object
    ) -> torch.Tensor:
        """Attention alone, for callers whose own kernel wrote the cache. query [Q', heads, head_dim]."""
        assert isinstance(metadata, TritonAttentionMetadata), "metadata of another backend"
        query, common = query.contiguous(), metadata.common
        if not metadata.single_queries:
            return attend_mixed(query, key_cache, value_cache, common, mixed_tiles(query))
        splits = splits_for(min(common.num_reqs, query.shape[0]), key_cache.shape[2])
        return attend_single(query, key_cache, value_cache, common, decode_tiles(query), splits)


def mixed_tiles(query: torch.Tensor) -> Tiles:
    """Tiles of the mixed kernel by type and head_dim, from benchmarks/results/h200/kernel_sweep.json.

    Of those within a few percent of the fastest at a prompt of 8k, the best at a chunk beside decodes.
    """
    head_dim = query.shape[2]
    if query.dtype == torch.float32:
        return FLOAT32_TILES
    if head_dim <= 64:
        return Tiles(query_rows=64, kv_tokens=128, num_warps=4, num_stages=5)
    if head_dim <= 128:
        return Tiles(query_rows=128, kv_tokens=64, num_warps=4, num_stages=3)
    return Tiles(query_rows=128, kv_tokens=32, num_warps=8, num_stages=3)  # not swept: what fits into shared memory


def decode_tiles(query: torch.Tensor) -> Tiles:
    """Tiles of the decode kernel, as `mixed_tiles`.

    Keys and values are loaded through the block table, so a tile passes three stages; five load two tiles ahead.
    """
    head_dim = query.shape[2]
    if query.dtype == torch.float32:
        return FLOAT32_TILES
    if head_dim <= 64:
        return Tiles(query_rows=MIN_DOT_ROWS, kv_tokens=64, num_warps=2, num_stages=5)
    if head_dim <= 128:
        return Tiles(query_rows=MIN_DOT_ROWS, kv_tokens=64, num_warps=2, num_stages=3)
    return Tiles(query_rows=MIN_DOT_ROWS, kv_tokens=32, num_warps=4, num_stages=3)


def _shape(
    query: torch.Tensor, cache: torch.Tensor, tiles: Tiles, common: CommonAttentionMetadata
) -> dict[str, int | float | str]:
    """The compile-time operands that both kernels share."""
    heads, head_dim = query.shape[1:]
    return {
        "SCALE": head_dim**-0.5 * math.log2(math.e),
        "BLOCK_SIZE": cache.shape[1],
        "HEADS": heads,
        "GROUP": heads // cache.shape[2],
        "HEAD_DIM": head_dim,
        "TILE": tiles.kv_tokens,
        "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32",
        "WINDOW": common.window or 0,
        "num_warps": tiles.num_warps,
        "num_stages": tiles.num_stages,
    }


def attend_mixed(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, common: CommonAttentionMetadata, tiles: Tiles
) -> torch.Tensor:
    """Any batch. Padding tokens belong to no block of any row, so their zeros stay."""
    out = torch.zeros_like(query)
    group = query.shape[1] // keys.shape[2]
    block_q = max(tiles.query_rows // triton.next_power_of_2(group), 1)
    grid = (keys.shape[2], query.shape[0] // block_q + common.num_reqs)
    mixed_attention[grid](
        query, keys, values, out, common.block_table, common.seq_lens, common.query_start_loc, common.num_reqs,
        common.block_table.stride(0), keys.stride(1), keys.stride(2), BLOCK_Q=block_q,
        BLOCK_M=max(tiles.query_rows, triton.next_power_of_2(block_q * group)), **_shape(query, keys, tiles, common),
    )
    return out


def attend_single(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, common: CommonAttentionMetadata, tiles: Tiles,
    splits: int,
) -> torch.Tensor:
    """One query a row, its keys in `splits` parts, a power of two.

    Tokens behind the rows are padding of a piecewise graph: no row of the table is theirs, so their zeros stay.
    """
    tokens, heads, head_dim = query.shape
    rows, kv_heads = min(common.num_reqs, tokens), keys.shape[2]
    out = torch.empty_like(query) if rows == tokens else torch.zeros_like(query)
    parts = (rows, heads, splits) if splits > 1 else (0,)
    partial = torch.empty((*parts, head_dim), dtype=torch.float32, device=query.device)
    stats = torch.empty((*parts, 2), dtype=torch.float32, device=query.device)
    split_decode[(kv_heads, rows, splits)](
        query, keys, values, out, partial, stats, common.block_table, common.seq_lens, common.block_table.stride(0),
        keys.stride(1), keys.stride(2), SPLITS=splits,
        BLOCK_M=max(MIN_DOT_ROWS, triton.next_power_of_2(heads // kv_heads)),
        **_shape(query, keys, tiles, common),
    )
    if splits > 1:
        reduce_splits[(rows * heads,)](partial, stats, out, SPLITS=splits, HEAD_DIM=head_dim)
    return out


def splits_for(rows: int, kv_heads: int) -> int:
    """A power of two that fills the GPU. By padded rows alone, because a captured graph keeps it for good."""
    wanted = triton.cdiv(PROGRAMS_WANTED, rows * kv_heads)
    return int(min(MAX_SPLITS, triton.next_power_of_2(wanted)))
