"""What attention adds to a replayed decode by the graph's size, with one row that is real.

A captured graph keeps the launch that was chosen for all of its rows: one row's keys are shared out among fewer
programs in a larger graph. Timed as whole graphs with and without attention, side by side: kernels that follow one
another in a graph overlap and share caches, and of kernels apart the sum is not the graph's.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import torch

from ...runner.attention.metadata import AttentionBackend, CommonAttentionMetadata
from ...runner.models.kv_cache import KVCache, LayerKV
from .bench import Bench, Replayable
from .raw import SizedSample
from .stack import BLOCK_SIZE, Stack

SIZED = (*range(1, 41), 48, 56, 64, 80, 96, 128, 192, 256, 384, 512)
"""Rows that a graph is captured for."""
SIZED_KV = 1536
"""KV positions of the real row: a request of a conversation (Azure's trace of 2023: 1,155 tokens of prompt, 211 said).
"""
ROUNDS, INNER, REPEATS = 3, 3, 3
PADDING_SLOT = -1


class OneRow:
    """The stack's decoder over a cache of which one row reads `kv_tokens` positions; its other rows are padding."""

    def __init__(self, stack: Stack, backend: AttentionBackend, most: int, kv_tokens: int) -> None:
        self._model, self._backend = stack.model, backend
        config, device = stack.model.config, stack.model.weights.embedding.device
        blocks = -(-kv_tokens // BLOCK_SIZE)
        shape = (blocks + 1, BLOCK_SIZE, config.num_key_value_heads, config.head_dim)
        self._cache = KVCache(
            tuple(
                LayerKV(*(torch.empty(shape, dtype=config.torch_dtype, device=device).normal_() for _ in range(2)))
                for _ in range(config.num_hidden_layers)
            ),
            shape[0],
        )  # fmt: skip
        order = np.random.default_rng(0).permutation(np.arange(1, blocks + 1)).astype(np.int32)
        self._kv_tokens = kv_tokens
        self._table = torch.zeros((most, blocks), dtype=torch.int32, device=device)
        self._table[0] = torch.from_numpy(order).to(device)
        self._lens = _first(most, kv_tokens, 0, torch.int32, device)
        self._positions = _first(most, kv_tokens - 1, 0, torch.int64, device)
        last = int(order[-1]) * BLOCK_SIZE + (kv_tokens - 1) % BLOCK_SIZE
        self._slots = _first(most, last, PADDING_SLOT, torch.int64, device)
        self._starts = torch.arange(most + 1, dtype=torch.int32, device=device)
        self._input_ids = torch.arange(most, dtype=torch.int32, device=device) % config.vocab_size

    def forward(self, rows: int) -> torch.Tensor:
        """Hidden states of a decode in a graph of so many rows."""
        metadata = self._backend.build(self._common(rows))
        return self._model.forward(
            self._input_ids[:rows], self._positions[:rows], self._cache, self._backend,
            (metadata,) * self._model.config.num_hidden_layers,
        )  # fmt: skip

    def _common(self, rows: int) -> CommonAttentionMetadata:
        return CommonAttentionMetadata(
            num_reqs=rows, num_actual_reqs=rows, num_tokens=rows, num_actual_tokens=rows, max_query_len=1,
            max_seq_len=self._kv_tokens, query_start_loc=self._starts[: rows + 1], seq_lens=self._lens[:rows],
            block_table=self._table[:rows], slot_mapping=self._slots[:rows], positions=self._positions[:rows],
            query_start_loc_cpu=np.arange(rows + 1, dtype=np.int32),
            seq_lens_cpu=np.array([self._kv_tokens] + [0] * (rows - 1), dtype=np.int32),
            is_prefilling=np.zeros(rows, dtype=np.bool_), uniform=True,
        )  # fmt: skip


def sized_samples(
    bench: Bench, stack: Stack, backend: AttentionBackend, sizes: Sequence[int] = SIZED, kv_tokens: int = SIZED_KV
) -> tuple[SizedSample, ...]:
    """Of each size the median over rounds, which go over all sizes, of graph with attention - graph without."""
    one = OneRow(stack, backend, max(sizes), kv_tokens)
    pairs = [(_captured(bench, one, rows), _captured(bench, stack, rows)) for rows in sizes]
    rounds = [[_ns(bench, whole) - _ns(bench, bare) for whole, bare in pairs] for _ in range(ROUNDS)]
    longer = map(statistics.median, zip(*rounds, strict=True))
    return tuple(SizedSample(rows, kv_tokens, ns) for rows, ns in zip(sizes, longer, strict=True))


def _captured(bench: Bench, subject: OneRow | Stack, rows: int) -> Replayable:
    return bench.graph(lambda: subject.forward(rows))


def _ns(bench: Bench, graph: Replayable) -> float:
    return bench.device_ns(graph.replay, inner=INNER, repeats=REPEATS)


def _first(
    rows: int, value: int, others: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    column = torch.full((rows,), others, dtype=dtype, device=device)
    column[0] = value
    return column
