"""What moves block ids within the device: Triton kernels on a GPU, NumPy where device tensors lie in host memory."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from .table_diffs import FIELDS
from .table_pool import TablePool

LongArray = npt.NDArray[np.int64]


class TableKernels(Protocol):
    """Both are called within a launch."""

    def scatter(self, pool: TablePool, packed: torch.Tensor, total: int) -> None:
        """Put `total` packed differences into the tables of `pool`."""
        ...

    def gather(
        self, pool: TablePool, step: TablePool, index_map: torch.Tensor, num_rows: int, columns: int
    ) -> None:
        """Rows of `step` become rows `index_map` of `pool`, null where that is negative; only the first columns."""
        ...


class TritonTableKernels:
    """One kernel launch each, for all groups."""

    def __init__(self) -> None:
        from ..kernels.table_moves import gather_rows, scatter_diffs

        self._scatter, self._gather = scatter_diffs, gather_rows

    def scatter(self, pool: TablePool, packed: torch.Tensor, total: int) -> None:
        """See TableKernels."""
        self._scatter(pool, packed, total)

    def gather(
        self, pool: TablePool, step: TablePool, index_map: torch.Tensor, num_rows: int, columns: int
    ) -> None:
        """See TableKernels."""
        self._gather(pool, step, index_map, num_rows, columns)


class HostTableKernels:
    """The same reads and writes on the same tensors, through NumPy views: a wrong difference shows as on a GPU."""

    def scatter(self, pool: TablePool, packed: torch.Tensor, total: int) -> None:
        """See TableKernels."""
        data = packed.numpy()
        group, row, start, count, nulls, first = data[: FIELDS * total].reshape(FIELDS, total).astype(np.int64)
        target = pool.bases.numpy()[group] + row * pool.widths.numpy()[group] + start
        flat = pool.flat.numpy()
        ids = data[FIELDS * total :]
        if count.max(initial=0) == 1 == count.min(initial=1) and not nulls.any():
            flat[target] = ids[first]
            return
        flat[_ranges(target, count)] = ids[_ranges(first, count)]
        flat[_ranges(target + count, nulls)] = 0

    def gather(
        self, pool: TablePool, step: TablePool, index_map: torch.Tensor, num_rows: int, columns: int
    ) -> None:
        """See TableKernels."""
        slots = index_map.numpy()[:num_rows]
        absent = slots < 0
        for source, target in zip(pool.tables, step.tables, strict=True):
            rows = target.numpy()[:num_rows, :columns]
            rows[:] = source.numpy()[:, :columns][slots]
            rows[absent] = 0


def _ranges(first: LongArray, count: LongArray) -> LongArray:
    """first[0] .. first[0] + count[0] - 1, first[1] .. and so on, in one array."""
    ends = np.cumsum(count)
    return np.repeat(first - ends + count, count) + np.arange(int(ends[-1]) if ends.size else 0)


def make_table_kernels(device: torch.device) -> TableKernels:
    """The kernels for tensors on `device`."""
    return TritonTableKernels() if device.type == "cuda" else HostTableKernels()
