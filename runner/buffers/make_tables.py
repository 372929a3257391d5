"""Builds the block tables of a runner by the switches `block_table_commit` and `batch_state`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from ...errors import UsageError
from ..config import BlockTableCommit
from ..devices.base import Device, StreamName
from .device_tables import ByIndexMap, DeviceTables, InPlace, StepOrder
from .factory import BufferFactory
from .staged import StagedTable
from .table_diffs import FIELDS, DiffTable
from .table_kernels import make_table_kernels
from .table_pool import TablePool
from .transfers import ChangedRows, DiffRows, DirtyTable, Scatter, Transfer, WholeRows

TableOrder = Literal["in_place", "index_map"]


class TableFactory:
    """Tables [rows, widths[g]] of all groups, named `names[g]` in the recording; their copies run on `stream`."""

    def __init__(
        self, device: Device, buffers: BufferFactory, names: Sequence[str], shape: tuple[int, Sequence[int]],
        stream: StreamName,
    ) -> None:  # fmt: skip
        self._device = device
        self._buffers = buffers
        self._names = names
        self._rows, self._widths = shape
        self._stream = stream
        self._kernels = make_table_kernels(device.tensor_device)

    def make(self, commit: BlockTableCommit, order: TableOrder) -> DeviceTables:
        """Raises UsageError for an unknown value."""
        transfers = {"full": self._whole, "dirty_rows": self._changed, "staged": self._diffs}
        if commit not in transfers:
            raise UsageError(f"block_table_commit: unknown value {commit!r}; known are {', '.join(transfers)}")
        transfer = transfers[commit]()
        return DeviceTables(transfer, self._order(order, transfer))

    def _order(self, order: TableOrder, transfer: Transfer) -> StepOrder:
        if order == "in_place":
            return InPlace(transfer)
        index_map = self._buffers.buffer("index_map", self._rows, torch.int32, stream=self._stream)
        return ByIndexMap(self._device, transfer, index_map, self._kernels, self._buffers.road)

    def _whole(self) -> Transfer:
        pools = self._buffers.pools(self._rows, self._widths)
        return WholeRows(self._tables(pools), pools)

    def _changed(self) -> Transfer:
        pools, road = self._buffers.pools(self._rows, self._widths), self._buffers.road
        parts = [DirtyTable(table, road.sets) for table in self._tables(pools)]
        return ChangedRows(parts, pools, road, self._scatter("block_rows", max(self._widths)))

    def _diffs(self) -> Transfer:
        pool = TablePool(self._device, self._rows, self._widths)
        mirrors = [self._device.host_tensor((self._rows, width), torch.int32, pinned=False) for width in self._widths]
        scatter = self._scatter("block_diffs", self._rows * (FIELDS + 1))
        return DiffRows([DiffTable(mirror) for mirror in mirrors], pool, self._buffers.road, scatter)

    def _scatter(self, name: str, least: int) -> Scatter:
        buffer = self._buffers.growing(name, least, torch.int32, stream=self._stream)
        return Scatter(self._device, buffer, self._kernels)

    def _tables(self, pools: tuple[TablePool, ...]) -> list[StagedTable]:
        return [
            self._buffers.table(name, pools, group, self._stream) for group, name in enumerate(self._names)
        ]
