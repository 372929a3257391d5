"""The switch `batch_state`: the columns of a runner, and where its requests live in them."""

from __future__ import annotations

import torch

from ...errors import UsageError
from ..buffers.make_tables import TableOrder
from ..config import BatchState, RunnerConfig
from ..devices.base import Device
from .block_tables import BlockTables
from .input_batch import InputBatch
from .rebuilt_batch import RebuiltBatch
from .slot_batch import SlotBatch

BATCHES: dict[BatchState, type[InputBatch]] = {
    "persistent": InputBatch, "stable_slots": SlotBatch, "rebuild": RebuiltBatch,
}  # fmt: skip


def make_batch(config: RunnerConfig, block_tables: BlockTables, device: Device) -> InputBatch:
    """The batch of the switch, its token history in memory of the switch `history`. Raises UsageError for an unknown
    value.
    """
    if config.batch_state not in BATCHES:
        raise UsageError(f"batch_state: unknown value {config.batch_state!r}; known are {', '.join(BATCHES)}")
    shape = (config.max_num_seqs, config.max_model_len)
    history = device.host_tensor(shape, torch.int32, pinned=config.history == "pinned")
    return BATCHES[config.batch_state](config, block_tables, history)


def table_order(batch_state: BatchState) -> TableOrder:
    """How rows of the host's tables come into the order of a step on the device."""
    return "index_map" if batch_state == "stable_slots" else "in_place"
