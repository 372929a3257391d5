"""The device buffers that captured graphs read: full capacity, addresses fixed for the runner's life."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Containers:
    """Shapes as the device side of StepInputs, at full capacity."""

    input_ids: torch.Tensor
    positions: torch.Tensor
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor

    def hold_only_padding(self) -> None:
        """Make every row and token padding, so that a capture's warm-up touches no cache."""
        for tensor in (self.input_ids, self.positions, self.query_start_loc, self.seq_lens, self.block_table):
            tensor.zero_()
        self.slot_mapping.fill_(-1)
