"""A Llama-family decoder over one flat token stream: every request's tokens of the step, one behind the other."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..attention.metadata import AttentionBackend
from ..devices.base import Device
from .config import ModelConfig, resolve_config
from .kv_cache import KVCache, LayerKV
from .rope_scaling import inverse_frequencies
from .weights import DecoderWeights, LayerWeights, random_weights


def rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Root-mean-square norm; the statistics are float32 and the weight is applied after the cast, as Hugging Face."""
    wide = hidden.to(torch.float32)
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * scale).to(hidden.dtype)


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions, channel i paired with i + head_dim / 2. heads [Q', n, head_dim]; cos, sin [Q', 1, head_dim]."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin


class LlamaModel:
    """Weights and arithmetic. Holds no state of any request: that is in the KV cache, the batch and the metadata."""

    def __init__(self, config: ModelConfig, weights: DecoderWeights) -> None:
        self.config = config
        self.weights = weights
        device = weights.embedding.device
        self._inv_freq = inverse_frequencies(config.head_dim, config.rope_theta, config.rope_scaling).to(device)
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._qkv_heads = [heads, kv_heads, kv_heads]

    @torch.inference_mode()
    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, kv_cache: KVCache,
        backend: AttentionBackend, metadata: object,
    ) -> torch.Tensor:
        """Hidden states [Q', H] behind the final norm, for input_ids [Q'] and positions [Q']; writes the KV cache."""
        hidden = F.embedding(input_ids, self.weights.embedding)
        cos, sin = self._rotation(positions)
        eps = self.config.rms_norm_eps
        for weights, cache in zip(self.weights.layers, kv_cache.layers, strict=True):
            query, key, value = self._project(rms_norm(hidden, weights.attention_norm, eps), weights)
            query, key = rotate(query, cos, sin), rotate(key, cos, sin)
            attended = _attend(backend, (query, key, value), cache, metadata)
            hidden = hidden + F.linear(attended.flatten(1), weights.output)
            hidden = hidden + _mlp(rms_norm(hidden, weights.mlp_norm, eps), weights)
        return rms_norm(hidden, self.weights.final_norm, eps)

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Scores over the vocabulary, [n, vocab] float32, for hidden states [n, H]."""
        return F.linear(hidden, self.weights.lm_head).to(torch.float32)

    def _rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin [Q', 1, head_dim] in the model's dtype; angles are float32, as Hugging Face computes them."""
        half = positions.to(torch.float32)[:, None] * self._inv_freq
        angles = torch.cat((half, half), dim=-1).unsqueeze(1)
        dtype = self.config.torch_dtype
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def _project(self, normed: torch.Tensor, weights: LayerWeights) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query [Q', heads, head_dim], key and value [Q', kv_heads, head_dim]."""
        fused = F.linear(normed, weights.qkv).view(normed.shape[0], -1, self.config.head_dim)
        query, key, value = torch.split(fused, self._qkv_heads, dim=1)
        return query, key, value


def _attend(
    backend: AttentionBackend, qkv: tuple[torch.Tensor, torch.Tensor, torch.Tensor], cache: LayerKV, metadata: object,
) -> torch.Tensor:
    query, key, value = qkv
    return backend.forward(query, key, value, cache.key, cache.value, metadata)


def _mlp(normed: torch.Tensor, weights: LayerWeights) -> torch.Tensor:
    gate, up = F.linear(normed, weights.gate_up).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, weights.down)


def load_model(model: str, seed: int, device: Device) -> LlamaModel:
    """The decoder of shape `model` (a name or the path of a config.json) with random weights by `seed`."""
    config = resolve_config(model)
    return LlamaModel(config, random_weights(config, seed, device.tensor_device))
