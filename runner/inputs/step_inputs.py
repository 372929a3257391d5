"""The flat working set of one step: what input preparation hands to dispatch, metadata, executor and sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ..speculation.metadata import SpecDecodeMetadata

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
MergeEmbeds = Callable[[torch.Tensor], torch.Tensor]
"""Puts what prompts brought into the embeddings of the step's ids, [Q, hidden] both ways, when the forward runs."""


@dataclass(frozen=True, slots=True)
class GroupTensors:
    """The device tensors of one KV cache group, at fixed addresses and full capacity.

    block_table [max_num_seqs, width] int32, kernel blocks, null block behind each row's blocks
    slots       [max_num_batched_tokens] int64, -1 behind Q; all -1 in a group whose tokens have no slots; with decode
                context parallelism [ranks, max_num_batched_tokens], each rank's own, -1 where another one has it
    """

    block_table: torch.Tensor
    slots: torch.Tensor


@dataclass(slots=True)
class StepInputs:
    """R requests, Q real tokens; rows in batch order, tokens flat. Host arrays are views that live until the next step.

    Host side
      req_ids             R request ids, batch row order
      num_scheduled       [R] int32, q_i
      num_computed        [R] int32, c_i before this step
      query_start_loc     [R + 1] int32, prefix sums of q
      req_indices         [Q] int32, token -> row
      query_pos           [Q] int32, position within the chunk
      positions           [Q] int64, c_i + query_pos
      seq_lens            [R] int32, c_i + q_i
      logits_indices      [R] int64, query_start_loc[1:] - 1
      discard             [R] bool, True where the sampled token must not become visible
      is_prefilling       [R] bool, c_i < prompt length
    Device side (fixed addresses, full capacity; the valid prefix is what counts)
      input_ids           [max_num_batched_tokens] int32
      positions_gpu       [max_num_batched_tokens] int64
      query_start_loc_gpu [max_num_seqs + 1] int32, tail filled with Q
      seq_lens_gpu        [max_num_seqs] int32, 0 behind R
      groups              one GroupTensors a KV cache group; `block_table_gpu` and `slot_mapping` are the first one's
      logits_indices_gpu  [max_num_seqs] int64
    `speculation` says where drafts are verified; None in a step without drafts.
    `table_copies` are the correlations of this step's block-table copies, empty if they were skipped.
    `buffer_set` is the set of device buffers that the step fills; what is enqueued for a step uses no other set's.
    `merge_embeds` is None where no token of the step has an embedding that its prompt brought.
    """

    step: int
    req_ids: tuple[str, ...]
    num_reqs: int
    num_tokens: int
    num_scheduled: IntArray
    num_computed: IntArray
    query_start_loc: IntArray
    req_indices: IntArray
    query_pos: IntArray
    positions: LongArray
    seq_lens: IntArray
    logits_indices: LongArray
    discard: BoolArray
    is_prefilling: BoolArray
    input_ids: torch.Tensor
    positions_gpu: torch.Tensor
    query_start_loc_gpu: torch.Tensor
    seq_lens_gpu: torch.Tensor
    groups: tuple[GroupTensors, ...]
    logits_indices_gpu: torch.Tensor
    table_copies: tuple[int, ...] = ()
    speculation: SpecDecodeMetadata | None = None
    buffer_set: int = 0
    merge_embeds: MergeEmbeds | None = None

    @property
    def block_table_gpu(self) -> torch.Tensor:
        """The block table of the first group."""
        return self.groups[0].block_table

    @property
    def slot_mapping(self) -> torch.Tensor:
        """The slots of the first group."""
        return self.groups[0].slots
