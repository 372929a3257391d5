"""The paged KV cache: one pair of block arrays a layer, at fixed addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..devices.base import Device
from ..kv_groups import KVGroup
from .config import ModelConfig


@dataclass(frozen=True, slots=True)
class LayerKV:
    """Keys and values of one layer, each [num_blocks, block_size, kv_heads, head_dim]. Block 0 is the null block.

    With decode context parallelism [ranks, num_blocks, ...]: the shards of all ranks, side by side.
    """

    key: torch.Tensor
    value: torch.Tensor


@dataclass(frozen=True, slots=True)
class KVCache:
    """All layers' blocks. A block id means the same block in every layer of its KV cache group.

    Layers of different groups may lie in the same memory: a block is owned in one group at a time.
    """

    layers: tuple[LayerKV, ...]
    num_blocks: int

    @property
    def size_bytes(self) -> int:
        """Device memory that the cache takes."""
        tensors = {tensor.data_ptr(): tensor for layer in self.layers for tensor in (layer.key, layer.value)}
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def allocate_group_caches(
    device: Device, config: ModelConfig, num_blocks: int, groups: Sequence[KVGroup], group_of_layer: Sequence[int]
) -> KVCache:
    """A zeroed cache of several groups, in blocks as kernels see them.

    The n-th layer of each group lies in the n-th memory of its block size: all groups take blocks of one pool, so a
    block that one group owns is nobody else's, and the cache is as large as its largest group.
    """
    memories: dict[tuple[int, int], LayerKV] = {}
    taken = [0] * len(groups)
    layers: list[LayerKV] = []
    for index in group_of_layer:
        group, place = groups[index], taken[index]
        taken[index] += 1
        key = (group.block_size, place)
        if key not in memories:
            memories[key] = _layer(device, config, num_blocks * group.ratio, group)
        layers.append(memories[key])
    return KVCache(tuple(layers), num_blocks)


def _layer(device: Device, config: ModelConfig, num_blocks: int, group: KVGroup) -> LayerKV:
    shape: tuple[int, ...] = (num_blocks, group.rank_block_size, config.num_key_value_heads, config.head_dim)
    if group.shards.ranks > 1:
        shape = (group.shards.ranks, *shape)
    return LayerKV(device.empty(shape, config.torch_dtype), device.empty(shape, config.torch_dtype))
