"""The page tables of all KV cache groups: one column of the batch, one table a group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ...workloads.step import BlockIds
from ..buffers.device_tables import DeviceTables, Rows
from ..kv_groups import KVGroup, row_blocks
from .block_table import BlockTable


class BlockTables:
    """What a row owns in every group. Callers speak of manager blocks, one sequence of ids a group; tables hold kernel
    blocks, and each has its own width.
    """

    def __init__(self, groups: Sequence[KVGroup], device: DeviceTables) -> None:
        assert len(groups) == len(device.parts), "one table a group"
        self.groups = tuple(groups)
        self.device = device
        self.tables = tables = tuple(BlockTable(part) for part in device.parts)
        self._whole = all(group.ratio == 1 for group in groups)
        self.windowed = [
            (table, group) for group, table in zip(groups, tables, strict=True) if group.window is not None
        ]

    @property
    def dirty(self) -> bool:
        """The tables that the step reads on the device are not what is here."""
        return self.device.dirty

    def arrange(self, rows: Rows) -> None:
        """Where the requests of the steps to come live, in their order: a new object whenever that changes."""
        self.device.arrange(rows)

    def check(self, block_ids: BlockIds, step: int, req_id: str) -> None:
        """Raises UsageError unless `block_ids` has one list a group."""
        if len(block_ids) != len(self.tables):
            raise UsageError(
                f"step {step}: request {req_id!r}: block ids of {len(block_ids)} KV cache groups, but this runner has"
                f" {len(self.tables)};"
                " scheduler and runner need the same kv_groups"
            )

    def add_row(self, row: int, block_ids: Sequence[npt.ArrayLike]) -> None:
        """Make the row exactly `block_ids`: a new request, or a resumed one whose old blocks went back to the pool."""
        for group, table, ids in zip(self.groups, self.tables, block_ids, strict=True):
            table.add_row(row, ids if group.ratio == 1 else row_blocks(ids, group.ratio))

    def append_row(self, row: int, block_ids: Sequence[npt.ArrayLike]) -> None:
        """Add blocks behind those that the row has."""
        for group, table, ids in zip(self.groups, self.tables, block_ids, strict=True):
            if len(ids):  # type: ignore[arg-type]  # a sequence of ids
                table.append_row(row, row_blocks(ids, group.ratio))

    def append_each(self, rows: npt.NDArray[np.intp], block_ids: Sequence[BlockIds]) -> None:
        """Add one block in every group to each of `rows`, which are distinct; `block_ids` is row by row."""
        if not self._whole:
            for row, ids in zip(rows.tolist(), block_ids, strict=True):
                self.append_row(row, ids)
            return
        for index, table in enumerate(self.tables):
            table.append_each(rows, [ids[index][0] for ids in block_ids])

    def clear(self, row: int) -> None:
        """Null the row in every group."""
        for table in self.tables:
            table.clear(row)

    def move(self, source: int, target: int) -> None:
        """Put the blocks of `source` into `target` and null `source`, in every group."""
        for table in self.tables:
            table.move(source, target)

    def swap(self, first: int, second: int) -> None:
        """Exchange two rows in every group."""
        for table in self.tables:
            table.swap(first, second)

    def pass_windows(self, rows: npt.NDArray[np.intp] | slice, num_computed: npt.NDArray[np.int32]) -> None:
        """Null what has fallen out of the windows of `rows`; `num_computed` [R] counts their tokens before this step.

        The scheduler has given these blocks back and may hand them to anybody: no consumer may find them here.
        """
        for table, group in self.windowed:
            table.null_before(rows, group.passed(num_computed))

    def commit(self, num_reqs: int) -> tuple[int, ...]:
        """Bring the rows of the step to the device. Returns the correlations of the copies that this takes."""
        return self.device.commit(num_reqs, max([table.columns_used for table in self.tables]))
