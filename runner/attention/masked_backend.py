"""Attention of all queries over all keys of the step at once, under a mask that says who sees whom: the naive design.

Numbers are those of `TorchAttention`; its cost is Q' x K scores a head and Q' x K bytes of mask, whatever the rows.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from .masks import ExplicitMask, StepMasks
from .metadata import CommonAttentionMetadata
from .paged_layout import cache_write
from .torch_backend import within_reach, write_cache


class MaskedMetadata:
    """One step's facts, its mask, and where its keys lie, which the first layer asks for and the others reuse."""

    __slots__ = ("_slots", "common", "mask")

    def __init__(self, common: CommonAttentionMetadata, mask: ExplicitMask) -> None:
        self.common = common
        self.mask = mask
        self._slots: torch.Tensor | None = None

    def key_slots(self, block_size: int) -> torch.Tensor:
        """[K] int64: where each key of the step lies in a cache of such blocks, by the table on the device."""
        if self._slots is None:
            lens = self.mask.num_keys
            ends = np.cumsum(lens, dtype=np.int64)
            positions = np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - lens, lens)
            table, rows = self.common.block_table, np.repeat(self.mask.rows, lens)
            row, at = (torch.from_numpy(array).to(table.device) for array in (rows, positions))
            self._slots = table[row, at // block_size].to(torch.int64) * block_size + at % block_size
        return self._slots


class MaskedAttention:
    """The backend `torch` with the switch `attention_mask` on `explicit`. Padding tokens come out as zeros.

    `reach` is the model's (`ModelConfig`).
    """

    name = "torch"

    def __init__(self, masks: StepMasks, reach: int | None = None) -> None:
        self._masks = masks
        self._reach = reach

    def build(self, common: CommonAttentionMetadata) -> MaskedMetadata:
        """Metadata of one step, its mask on the way to the device."""
        common = within_reach(common, self._reach)
        return MaskedMetadata(common, self._masks.stage(common))

    @torch.inference_mode()
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object,
    ) -> torch.Tensor:
        """Write key and value by slot, then attend; shapes as in `AttentionBackend.forward`."""
        assert isinstance(metadata, MaskedMetadata), "metadata of another backend"
        write = cache_write(metadata.common)
        write_cache(key_cache, key, write)
        write_cache(value_cache, value, write)
        slots = metadata.key_slots(key_cache.shape[1])
        if not slots.numel():
            return torch.zeros_like(query, memory_format=torch.contiguous_format)
        grouped = query.reshape(query.shape[0], key.shape[1], -1, query.shape[2]).permute(1, 2, 0, 3)  # [K, G, Q', D]
        keys, values = (
            cache.view(-1, *cache.shape[2:])[slots].transpose(0, 1).unsqueeze(1).expand(-1, grouped.shape[1], -1, -1)
            for cache in (key_cache, value_cache)
        )
        attended = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=metadata.mask.visible)
        out = attended.permute(2, 0, 1, 3).reshape(query.shape)
        out[metadata.common.num_actual_tokens :] = 0  # padding sees nothing: what came of that depends on the kernel
        return out
