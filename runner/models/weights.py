"""Weights of one decoder, and random ones that are the same on every machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from ..seeds import stream_generator
from .config import ModelConfig


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer. H hidden, I intermediate, D head_dim; matrices are [out, in] as in torch.nn.Linear.

    Query, key and value lie in one matrix, gate and up in another: fewer and larger products, the same numbers.
    """

    attention_norm: torch.Tensor  # [H]
    qkv: torch.Tensor  # [(heads + 2 * kv_heads) * D, H]
    output: torch.Tensor  # [H, heads * D]
    mlp_norm: torch.Tensor  # [H]
    gate_up: torch.Tensor  # [2 * I, H]
    down: torch.Tensor  # [H, I]


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """All weights. With tied embeddings `lm_head` is the tensor `embedding`."""

    embedding: torch.Tensor  # [vocab, H]
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor  # [H]
    lm_head: torch.Tensor  # [vocab, H]


_shared: dict[tuple[ModelConfig, int, torch.device], DecoderWeights] | None = None


@contextmanager
def shared_weights() -> Iterator[None]:
    """Within the block equal weights are made once: for several runners in one process, which only read them."""
    global _shared
    before, _shared = _shared, {}
    try:
        yield
    finally:
        _shared = before


def random_weights(config: ModelConfig, seed: int, device: torch.device) -> DecoderWeights:
    """`make_weights`, or those that `shared_weights` has already."""
    if _shared is None:
        return make_weights(config, seed, device)
    key = (config, seed, device)
    if key not in _shared:
        _shared[key] = make_weights(config, seed, device)
    return _shared[key]


def make_weights(config: ModelConfig, seed: int, device: torch.device) -> DecoderWeights:
    """Weights with standard deviation `config.init_std` and norms of one, by seed.

    Every tensor has its own stream, so adding a layer changes no other. Values are uniform and not normal: a uniform
    float32 is exact arithmetic on generator bits, a normal one goes through log and cos, which differ by machine.
    """

    hidden, width = config.hidden_size, config.head_dim
    layer_shapes = {
        "qkv": ((config.num_attention_heads + 2 * config.num_key_value_heads) * width, hidden),
        "output": (hidden, config.num_attention_heads * width),
        "gate_up": (2 * config.intermediate_size, hidden),
        "down": (hidden, config.intermediate_size),
    }
    layers = range(config.num_hidden_layers)
    shapes = {f"layers.{i}.{name}": shape for i in layers for name, shape in layer_shapes.items()}
    shapes["embedding"] = (config.vocab_size, hidden)
    if not config.tie_word_embeddings:
        shapes["lm_head"] = (config.vocab_size, hidden)

    def drawn(name: str) -> torch.Tensor:
        values = torch.rand(shapes[name], generator=stream_generator(seed, "weights", name))
        values.sub_(0.5).mul_(config.init_std * 12**0.5)
        return values.to(config.torch_dtype)

    def norm() -> torch.Tensor:
        return torch.ones(config.hidden_size, dtype=config.torch_dtype, device=device)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # a generator draws on one core only
        matrices = {name: values.to(device) for name, values in zip(shapes, pool.map(drawn, shapes), strict=True)}
    return DecoderWeights(
        embedding=matrices["embedding"],
        layers=tuple(
            LayerWeights(
                attention_norm=norm(), mlp_norm=norm(),
                **{name: matrices[f"layers.{i}.{name}"] for name in layer_shapes},
            )
            for i in layers
        ),
        final_norm=norm(),
        lm_head=matrices.get("lm_head", matrices["embedding"]),
    )
