"""A Llama-family decoder over one flat token stream: every request's tokens of the step, one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F

from ..attention.metadata import AttentionBackend
from ..devices.base import Device
from .config import ModelConfig, resolve_config
from .kv_cache import KVCache
from .layer_ops import LayerOps, TorchOps, make_layer_ops
from .weights import DecoderWeights, random_weights

Embed = Callable[[torch.Tensor], torch.Tensor]


class LlamaModel:
    """Weights and arithmetic. Holds no state of any request: that is in the KV cache, the batch and the metadata."""

    def __init__(
        self, config: ModelConfig, weights: DecoderWeights, ops: LayerOps | None = None, embed: Embed | None = None
    ) -> None:
        self.config = config
        self.weights = weights
        self._ops = ops or TorchOps(config, weights.embedding.device)
        self.embed: Embed = embed or partial(F.embedding, weight=weights.embedding)
        self._norms = [
            *(norm for layer in weights.layers for norm in (layer.attention_norm, layer.mlp_norm)), weights.final_norm
        ]

    @torch.inference_mode()
    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, kv_cache: KVCache,
        backend: AttentionBackend, metadata: Sequence[object],
    ) -> torch.Tensor:
        """Hidden states [Q', H] behind the final norm, for input_ids [Q'] and positions [Q']; writes the KV cache.

        `metadata` is the backend's, one object a layer; layers of one KV spec may share one.
        """
        ops = self._ops
        hidden = self.embed(input_ids)
        rotation = ops.rotation(positions)
        norms = iter(self._norms)  # each product is followed by the norm of what comes next, so the two are fused
        normed = ops.norm(hidden, next(norms))
        for weights, cache, seen in zip(self.weights.layers, kv_cache.layers, metadata, strict=True):
            attended = ops.attend(F.linear(normed, weights.qkv), rotation, cache, backend, seen)
            hidden, normed = ops.add_norm(F.linear(attended, weights.output), hidden, next(norms))
            activated = ops.activate(F.linear(normed, weights.gate_up))
            hidden, normed = ops.add_norm(F.linear(activated, weights.down), hidden, next(norms))
        return normed

    def embedding_by(self, embed: Embed) -> LlamaModel:
        """The same weights behind another embedding of ids [Q'] as [Q', H]."""
        return LlamaModel(self.config, self.weights, self._ops, embed)

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Scores over the vocabulary, [n, vocab] float32, for hidden states [n, H]."""
        return F.linear(hidden, self.weights.lm_head).to(torch.float32)


def load_model(
    model: str, seed: int, device: Device, *, attention: str = "torch", max_positions: int = 8192
) -> LlamaModel:
    """The decoder of shape `model` (a name or the path of a config.json) with random weights by `seed`.

    `attention` names the backend that it will run with, whose operators it takes; they know `max_positions` positions.
    """
    config = resolve_config(model)
    ops = make_layer_ops(attention, config, device.tensor_device, max_positions)
    return LlamaModel(config, random_weights(config, seed, device.tensor_device), ops)
