"""The switch `batch_state`: the columns of a runner, and where its requests live in them."""

from __future__ import annotations

from ...errors import UsageError
from ..buffers.make_tables import TableOrder
from ..config import BatchState, RunnerConfig
from .block_tables import BlockTables
from .input_batch import InputBatch
from .rebuilt_batch import RebuiltBatch
from .slot_batch import SlotBatch

BATCHES: dict[BatchState, type[InputBatch]] = {
    "persistent": InputBatch, "stable_slots": SlotBatch, "rebuild": RebuiltBatch,
}  # fmt: skip


def make_batch(config: RunnerConfig, block_tables: BlockTables) -> InputBatch:
    """The batch of the switch. Raises UsageError for an unknown value."""
    if config.batch_state not in BATCHES:
        raise UsageError(f"batch_state: unknown value {config.batch_state!r}; known are {', '.join(BATCHES)}")
    return BATCHES[config.batch_state](config, block_tables)


def table_order(batch_state: BatchState) -> TableOrder:
    """How rows of the host's tables come into the order of a step on the device."""
    return "index_map" if batch_state == "stable_slots" else "in_place"
