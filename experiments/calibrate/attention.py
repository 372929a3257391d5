"""What attention adds to the stack: the runner's Triton kernels over paged caches, all layers in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from ...runner.attention.metadata import AttentionBackend, CacheReader, CommonAttentionMetadata
from ...runner.models.config import ModelConfig
from .bench import Bench
from .raw import Attention, DecodeSample, PrefillSample
from .stack import BLOCK_SIZE

MOST_KV_TOKENS = 1 << 19
"""KV positions of one layer's caches: 1 GiB of them for 8 heads of 64 in bf16."""
DECODE = tuple(
    (rows, kv) for rows in (1, 8, 32, 64, 128, 256, 512) for kv in (128, 512, 2048, 8192) if rows * kv <= MOST_KV_TOKENS
)
"""(rows, KV positions of each)."""
PREFILL = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Queries of one request without history."""


class Attends(AttentionBackend, CacheReader, Protocol):
    """A backend that can attend to a cache that somebody else wrote, as the Triton one does."""


class Caches:
    """One paged cache a layer, so that no layer finds its keys in the GPU's own cache; blocks are scattered."""

    def __init__(self, bench: Bench, config: ModelConfig, most_kv_tokens: int) -> None:
        self._config = config
        self._device = bench.device
        self.num_blocks = most_kv_tokens // BLOCK_SIZE + 1
        shape = (self.num_blocks, BLOCK_SIZE, config.num_key_value_heads, config.head_dim)
        self.layers = [
            tuple(torch.empty(shape, dtype=config.torch_dtype, device=bench.device).normal_() for _ in range(2))
            for _ in range(config.num_hidden_layers)
        ]
        self._order = np.random.default_rng(0).permutation(np.arange(1, self.num_blocks)).astype(np.int32)

    def query(self, tokens: int) -> torch.Tensor:
        """Random queries [tokens, heads, head_dim]."""
        shape = (tokens, self._config.num_attention_heads, self._config.head_dim)
        return torch.empty(shape, dtype=self._config.torch_dtype, device=self._device).normal_()

    def common(self, rows: int, queries: int, kv_tokens: int) -> CommonAttentionMetadata:
        """`rows` equal requests: `queries` new tokens each, `kv_tokens` with them."""
        blocks = -(-kv_tokens // BLOCK_SIZE)
        table = self._order[: rows * blocks].reshape(rows, blocks)
        starts = np.arange(rows + 1, dtype=np.int32) * np.int32(queries)
        lens = np.full(rows, kv_tokens, dtype=np.int32)
        tokens = rows * queries
        positions = torch.arange(tokens, device=self._device) % kv_tokens
        return CommonAttentionMetadata(
            num_reqs=rows, num_actual_reqs=rows, num_tokens=tokens, num_actual_tokens=tokens, max_query_len=queries,
            max_seq_len=kv_tokens, query_start_loc=torch.from_numpy(starts).to(self._device),
            seq_lens=torch.from_numpy(lens).to(self._device), block_table=torch.from_numpy(table).to(self._device),
            slot_mapping=torch.full_like(positions, -1), positions=positions, query_start_loc_cpu=starts,
            seq_lens_cpu=lens, is_prefilling=np.zeros(rows, dtype=np.bool_), uniform=queries == 1,
        )  # fmt: skip


def attention_samples(
    bench: Bench, config: ModelConfig, backend: Attends,
    decode: Sequence[tuple[int, int]] = DECODE, prefill: Sequence[int] = PREFILL,
) -> Attention:  # fmt: skip
    """Device ns of all layers for each (rows, KV positions) of `decode` and each number of queries in `prefill`."""
    most = max(*(rows * -(-kv // BLOCK_SIZE) * BLOCK_SIZE for rows, kv in decode), *prefill)
    caches = Caches(bench, config, most)
    return Attention(
        decode=tuple(DecodeSample(rows, kv, _layers_ns(bench, caches, backend, (rows, 1, kv))) for rows, kv in decode),
        prefill=tuple(PrefillSample(n, _layers_ns(bench, caches, backend, (1, n, n))) for n in prefill),
    )


def _layers_ns(bench: Bench, caches: Caches, backend: Attends, batch: tuple[int, int, int]) -> float:
    rows, queries, _ = batch
    query = caches.query(rows * queries)
    metadata = backend.build(caches.common(*batch))

    def all_layers() -> None:
        for keys, values in caches.layers:
            backend.attend(query, keys, values, metadata)

    return bench.device_ns(bench.graph(all_layers).replay, inner=3, repeats=5)
