"""A decoder layer's arithmetic in fused Triton kernels: five launches a layer where torch takes about thirty."""

from __future__ import annotations

import torch
import triton

from ..attention.metadata import AttentionBackend, CacheReader
from ..kernels.fused import add_rmsnorm, rope_and_kv_write, silu_mul
from .config import ModelConfig
from .kv_cache import LayerKV
from .rope_scaling import inverse_frequencies

HEADS_A_PROGRAM = 8
ACTIVATION_BLOCK = 1024


class TritonOps:
    """Works in the memory that it is given: `add_norm` overwrites `hidden`.

    cos and sin are tables over all `max_positions` positions, computed as the reference computes them (float32 angles);
    they stay float32, where the reference rounds them to the model's type.
    """

    def __init__(self, config: ModelConfig, device: torch.device, max_positions: int) -> None:
        self._config = config
        self._norm_block = triton.next_power_of_2(config.hidden_size)
        positions = torch.arange(max_positions, dtype=torch.float32)
        inv_freq = inverse_frequencies(config.head_dim, config.rope_theta, config.rope_scaling)
        angles = positions.to(device)[:, None] * inv_freq.to(device)
        self._cos, self._sin = angles.cos(), angles.sin()

    def rotation(self, positions: torch.Tensor) -> torch.Tensor:
        """The positions themselves: the kernel looks the angles up."""
        return positions

    def norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """See LayerOps."""
        return self._norm(hidden, hidden, weight, add=False)

    def add_norm(
        self, update: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See LayerOps; the sum is `hidden` itself."""
        return hidden, self._norm(update, hidden, weight, add=True)

    def attend(
        self, qkv: torch.Tensor, rotation: object, cache: LayerKV, backend: AttentionBackend, metadata: object
    ) -> torch.Tensor:
        """See LayerOps."""
        assert isinstance(rotation, torch.Tensor), "a rotation of other operators"
        assert isinstance(backend, CacheReader), "this backend writes the cache by itself"
        shape = self._config
        heads, kv_heads, tokens = shape.num_attention_heads, shape.num_key_value_heads, qkv.shape[0]
        query = torch.empty((tokens, heads, shape.head_dim), dtype=qkv.dtype, device=qkv.device)
        rope_and_kv_write[(tokens, triton.cdiv(heads + 2 * kv_heads, HEADS_A_PROGRAM))](
            qkv, query, cache.key, cache.value, rotation, backend.slots(metadata), self._cos, self._sin,
            HEADS=heads, KV_HEADS=kv_heads, HALF=shape.head_dim // 2, BLOCK_HEADS=HEADS_A_PROGRAM,
        )
        return backend.attend(query, cache.key, cache.value, metadata).flatten(1)

    def activate(self, gate_up: torch.Tensor) -> torch.Tensor:
        """See LayerOps."""
        tokens, size = gate_up.shape[0], gate_up.shape[1] // 2
        out = torch.empty((tokens, size), dtype=gate_up.dtype, device=gate_up.device)
        block = min(ACTIVATION_BLOCK, triton.next_power_of_2(size))
        silu_mul[(tokens, triton.cdiv(size, block))](gate_up, out, INTERMEDIATE=size, BLOCK=block)
        return out

    def _norm(
        self, update: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, *, add: bool
    ) -> torch.Tensor:
        out = torch.empty_like(hidden)
        add_rmsnorm[(hidden.shape[0],)](
            update, hidden, weight, out, HIDDEN=hidden.shape[1], EPS=self._config.rms_norm_eps,
            BLOCK=self._norm_block, ADD=add,
        )
        return out
