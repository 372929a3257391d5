"""The runner's own decoder stack: device time in a graph by token count, and what its eager launches cost.

Attention is left out of the stack and timed apart (attention.py): its cost follows rows and KV lengths, not tokens.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence

import numpy as np
import torch

from ...runner.attention.metadata import AttentionBackend, CommonAttentionMetadata
from ...runner.devices.graph_kernels import kernel_hash
from ...runner.models.config import ModelConfig
from ...runner.models.kv_cache import KVCache, LayerKV
from ...runner.models.llama import LlamaModel
from ...runner.models.weights import DecoderWeights, random_weights
from .bench import Bench, Replayable, Said
from .raw import EagerSample, StackSample

BLOCK_SIZE = 16
STACK_SIZES = (*range(1, 513), *range(544, 2049, 32), *range(2176, 4097, 128), *range(4352, 8193, 256))
EAGER_SIZES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)
ROUNDS = 3
EAGER_ROUNDS, EAGER_REPEATS = 5, 7
GRAPHS_AT_ONCE = 64
"""Graphs of neighbouring sizes whose rounds take turns, so that a noisy second spoils one round of each, not all."""


class Stack:
    """`layers` decoder layers with weights and a cache of their own each; only sizes matter, values are random."""

    def __init__(self, device: torch.device, model: LlamaModel, backend: AttentionBackend, max_tokens: int) -> None:
        self.model = model
        self._backend = backend
        config = model.config
        shape = (max_tokens // BLOCK_SIZE + 2, BLOCK_SIZE, config.num_key_value_heads, config.head_dim)
        self._cache = KVCache(
            tuple(
                LayerKV(*(torch.zeros(shape, dtype=config.torch_dtype, device=device) for _ in range(2)))
                for _ in range(config.num_hidden_layers)
            ),
            shape[0],
        )  # fmt: skip
        self._input_ids = torch.arange(max_tokens, device=device, dtype=torch.int32) % config.vocab_size
        self._positions = torch.arange(max_tokens, device=device) % 4096
        self._slots = torch.arange(max_tokens, device=device) + BLOCK_SIZE
        self._starts = torch.arange(max_tokens + 1, device=device, dtype=torch.int32)
        self._lens = torch.ones(max_tokens, device=device, dtype=torch.int32)
        self._table = torch.zeros((max_tokens, 1), device=device, dtype=torch.int32)

    def forward(self, tokens: int) -> torch.Tensor:
        """Hidden states of `tokens` single queries."""
        metadata = self._backend.build(self._common(tokens))
        return self.model.forward(
            self._input_ids[:tokens], self._positions[:tokens], self._cache, self._backend,
            (metadata,) * self.model.config.num_hidden_layers,
        )  # fmt: skip

    def _common(self, tokens: int) -> CommonAttentionMetadata:
        return CommonAttentionMetadata(
            num_reqs=tokens, num_actual_reqs=tokens, num_tokens=tokens, num_actual_tokens=tokens, max_query_len=1,
            max_seq_len=1, query_start_loc=self._starts[: tokens + 1], seq_lens=self._lens[:tokens],
            block_table=self._table[:tokens], slot_mapping=self._slots[:tokens], positions=self._positions[:tokens],
            query_start_loc_cpu=np.arange(tokens + 1, dtype=np.int32), seq_lens_cpu=np.ones(tokens, dtype=np.int32),
            is_prefilling=np.zeros(tokens, dtype=np.bool_), uniform=True,
        )  # fmt: skip


def without_attention() -> AttentionBackend:
    """The runner's Triton backend whose kernels write the cache and attend to nothing."""
    from ...runner.attention.triton_backend import TritonAttention

    class WithoutAttention(TritonAttention):
        def attend(
            self, query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object
        ) -> torch.Tensor:
            return query.contiguous()

    return WithoutAttention()


def copied_weights(config: ModelConfig, device: torch.device) -> DecoderWeights:
    """Random weights of one layer, copied into memory of its own for every layer: making all would take a minute."""
    one = random_weights(dataclasses.replace(config, num_hidden_layers=1), 0, device)
    (layer,) = one.layers
    fields = [field.name for field in dataclasses.fields(layer)]
    layers = tuple(
        dataclasses.replace(layer, **{name: getattr(layer, name).clone() for name in fields})
        for _ in range(config.num_hidden_layers)
    )
    return dataclasses.replace(one, layers=layers)


def stack_samples(bench: Bench, stack: Stack, sizes: Sequence[int], say: Said) -> tuple[StackSample, ...]:
    """Medians of `ROUNDS` rounds for every size, neighbouring sizes taking turns."""
    samples: list[StackSample] = []
    for begin in range(0, len(sizes), GRAPHS_AT_ONCE):
        part = sizes[begin : begin + GRAPHS_AT_ONCE]
        graphs = [_captured(bench, stack, tokens) for tokens in part]
        rounds = [
            [bench.device_ns(graph.replay, inner=3 if tokens <= 1024 else 1, repeats=3)
             for tokens, graph in zip(part, graphs, strict=True)]
            for _ in range(ROUNDS)
        ]  # fmt: skip
        for tokens, graph, medians in zip(part, graphs, zip(*rounds, strict=True), strict=True):
            samples.append(StackSample(tokens, medians, kernel_hash(graph.kernels)))
        say(f"stack: {begin + len(part)} of {len(sizes)} sizes")
    return tuple(samples)


def _captured(bench: Bench, stack: Stack, tokens: int) -> Replayable:
    return bench.graph(lambda: stack.forward(tokens))


def eager_samples(bench: Bench, stack: Stack, sizes: Sequence[int]) -> tuple[EagerSample, ...]:
    """Span between events and host time of the eager stack on a drained device; the rounds go over all sizes."""
    spans: dict[int, list[float]] = {tokens: [] for tokens in sizes}
    hosts: dict[int, list[float]] = {tokens: [] for tokens in sizes}
    for _ in range(EAGER_ROUNDS):
        for tokens in sizes:
            runs = [_eager(bench, stack, tokens) for _ in range(EAGER_REPEATS)]
            spans[tokens].append(statistics.median(span for span, _ in runs))
            hosts[tokens].append(statistics.median(host for _, host in runs))
    return tuple(EagerSample(tokens, tuple(spans[tokens]), tuple(hosts[tokens])) for tokens in sizes)


def _eager(bench: Bench, stack: Stack, tokens: int) -> tuple[float, float]:
    start, end = bench.event(), bench.event()
    bench.drain()
    began_ns = time.perf_counter_ns()
    start.record(bench.stream())
    stack.forward(tokens)
    end.record(bench.stream())
    host_ns = time.perf_counter_ns() - began_ns
    bench.drain()
    return start.elapsed_time(end) * 1e6, float(host_ns)
