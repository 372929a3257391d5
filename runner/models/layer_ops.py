"""The arithmetic of a decoder layer between its matrix products, as a strategy: plain torch, or fused kernels."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F

from ...errors import UsageError
from ..attention.metadata import AttentionBackend
from .config import ModelConfig
from .kv_cache import LayerKV
from .rope_scaling import inverse_frequencies


class LayerOps(Protocol):
    """What a layer does besides its four products. `hidden` may be overwritten by `add_norm`; the caller drops it."""

    def rotation(self, positions: torch.Tensor) -> object:
        """What `attend` needs of the step's positions [Q']; one object serves all layers."""
        ...

    def norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Root-mean-square norm of hidden [Q', H]."""
        ...

    def add_norm(
        self, update: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(hidden + update, its norm), each [Q', H]."""
        ...

    def attend(
        self, qkv: torch.Tensor, rotation: object, cache: LayerKV, backend: AttentionBackend, metadata: object
    ) -> torch.Tensor:
        """Rotate, write the cache, attend: qkv [Q', (heads + 2 kv_heads) * D] -> [Q', heads * D]."""
        ...

    def activate(self, gate_up: torch.Tensor) -> torch.Tensor:
        """silu(gate) * up: [Q', 2 * I] -> [Q', I]."""
        ...


def rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Root-mean-square norm; the statistics are float32 and the weight is applied after the cast, as Hugging Face."""
    wide = hidden.to(torch.float32)
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * scale).to(hidden.dtype)


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions, channel i paired with i + head_dim / 2. heads [Q', n, head_dim]; cos, sin [Q', 1, head_dim]."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin


class TorchOps:
    """Public torch operators, on any device; the reference of the fused kernels."""

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._eps = config.rms_norm_eps
        self._dtype = config.torch_dtype
        self._head_dim = config.head_dim
        self._heads = [config.num_attention_heads, config.num_key_value_heads, config.num_key_value_heads]
        self._inv_freq = inverse_frequencies(config.head_dim, config.rope_theta, config.rope_scaling).to(device)

    def rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin [Q', 1, head_dim] in the model's dtype; angles are float32, as Hugging Face computes them."""
        half = positions.to(torch.float32)[:, None] * self._inv_freq
        angles = torch.cat((half, half), dim=-1).unsqueeze(1)
        return angles.cos().to(self._dtype), angles.sin().to(self._dtype)

    def norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """See LayerOps."""
        return rms_norm(hidden, weight, self._eps)

    def add_norm(
        self, update: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See LayerOps; both results are new tensors."""
        hidden = hidden + update
        return hidden, rms_norm(hidden, weight, self._eps)

    def attend(
        self, qkv: torch.Tensor, rotation: object, cache: LayerKV, backend: AttentionBackend, metadata: object
    ) -> torch.Tensor:
        """See LayerOps."""
        assert isinstance(rotation, tuple), "a rotation of other operators"
        query, key, value = torch.split(qkv.view(qkv.shape[0], -1, self._head_dim), self._heads, dim=1)
        query, key = rotate(query, *rotation), rotate(key, *rotation)
        return backend.forward(query, key, value, cache.key, cache.value, metadata).flatten(1)

    def activate(self, gate_up: torch.Tensor) -> torch.Tensor:
        """See LayerOps."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up


SMALLEST_HEAD_DIM = 16
"""tl.dot multiplies no fewer than 16 channels."""


def make_layer_ops(attention: str, config: ModelConfig, device: torch.device, max_positions: int) -> LayerOps:
    """The operators that go with the attention backend called `attention`.

    Raises UsageError for a head_dim that the kernels' tiles cannot hold.
    """
    if attention != "triton":
        return TorchOps(config, device)
    width = config.head_dim
    if width < SMALLEST_HEAD_DIM or width & (width - 1):
        raise UsageError(
            f"attention: triton needs a head_dim that is a power of two from {SMALLEST_HEAD_DIM} on, and model"
            f" {config.name} has {width}; use attention=torch"
        )
    from .triton_ops import TritonOps

    return TritonOps(config, device, max_positions)
