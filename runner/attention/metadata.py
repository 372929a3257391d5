"""Attention metadata on two levels: facts that every backend shares, and what one backend's kernel takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch


@dataclass(frozen=True, slots=True)
class CommonAttentionMetadata:
    """What the batch looks like, without regard to any kernel. R' and Q' are R and Q after padding.

    query_start_loc  [R' + 1] int32, never decreasing: the tail repeats Q
    seq_lens         [R'] int32, 0 for padding rows
    block_table      [R', width] int32, the null block 0 for padding rows
    slot_mapping     [Q'] int64, -1 for padding tokens; [ranks, Q'] with decode context parallelism
    positions        [Q'] int64
    is_prefilling    [R'] bool on the host, False for padding rows whatever the stale row says
    uniform          every row that ever comes in this shape has one token: a backend may choose a decode kernel by it,
                     also while a graph is captured
    window           positions that a query sees, itself included; None sees all
    num_decodes      rows before the first that is no decode, where decodes come first (switch `reorder`); else None
    """

    num_reqs: int
    num_actual_reqs: int
    num_tokens: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    positions: torch.Tensor
    query_start_loc_cpu: npt.NDArray[np.int32]
    seq_lens_cpu: npt.NDArray[np.int32]
    is_prefilling: npt.NDArray[np.bool_]
    uniform: bool = False
    window: int | None = None
    num_decodes: int | None = None


class AttentionBackend(Protocol):
    """One way to run paged attention. `build` makes what `forward` needs; layers of one KV spec share the result."""

    name: str

    def build(self, common: CommonAttentionMetadata) -> object:
        """The backend's own metadata for this step."""
        ...

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object,
    ) -> torch.Tensor:
        """Write key/value into the cache by slot, then attend.

        query [Q', heads, head_dim]; key, value [Q', kv_heads, head_dim];
        caches [num_blocks, block_size, kv_heads, head_dim]; returns [Q', heads, head_dim].
        """
        ...


@runtime_checkable
class CacheReader(Protocol):
    """What a backend offers beside AttentionBackend when a kernel of the model can write the cache in its place."""

    def slots(self, metadata: object) -> torch.Tensor:
        """Where each token's key and value go, [Q'] int64, -1 for padding."""
        ...

    def attend(
        self, query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object
    ) -> torch.Tensor:
        """Attention over what the cache holds, [Q', heads, head_dim] both ways."""
        ...
