"""The device buffers that captured graphs read: full capacity, addresses fixed for the runner's life."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .step_inputs import GroupTensors


@dataclass(frozen=True, slots=True)
class Containers:
    """Shapes as the device side of StepInputs, at full capacity."""

    input_ids: torch.Tensor
    positions: torch.Tensor
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    groups: tuple[GroupTensors, ...]

    @property
    def block_table(self) -> torch.Tensor:
        """The block table of the first KV cache group."""
        return self.groups[0].block_table

    @property
    def slot_mapping(self) -> torch.Tensor:
        """The slots of the first KV cache group."""
        return self.groups[0].slots

    def hold_only_padding(self) -> None:
        """Make every row and token padding, so that a capture's warm-up touches no cache."""
        for tensor in (self.input_ids, self.positions, self.query_start_loc, self.seq_lens):
            tensor.zero_()
        for group in self.groups:
            group.block_table.zero_()
            group.slots.fill_(-1)
