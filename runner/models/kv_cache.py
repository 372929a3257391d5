"""The paged KV cache: one pair of block arrays a layer, at fixed addresses."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..devices.base import Device
from .config import ModelConfig


@dataclass(frozen=True, slots=True)
class LayerKV:
    """Keys and values of one layer, each [num_blocks, block_size, kv_heads, head_dim]. Block 0 is the null block."""

    key: torch.Tensor
    value: torch.Tensor


@dataclass(frozen=True, slots=True)
class KVCache:
    """All layers' blocks. A block id means the same block in every layer."""

    layers: tuple[LayerKV, ...]
    num_blocks: int
    block_size: int

    @property
    def size_bytes(self) -> int:
        """Device memory that the cache takes."""
        return sum(2 * layer.key.numel() * layer.key.element_size() for layer in self.layers)


def allocate_kv_cache(device: Device, config: ModelConfig, num_blocks: int, block_size: int) -> KVCache:
    """A zeroed cache in the device's memory."""
    shape = (num_blocks, block_size, config.num_key_value_heads, config.head_dim)
    layers = tuple(
        LayerKV(device.empty(shape, config.torch_dtype), device.empty(shape, config.torch_dtype))
        for _ in range(config.num_hidden_layers)
    )
    return KVCache(layers, num_blocks, block_size)
