"""Triton kernels that keep block tables on the device: differences into rows, and rows into the order of a step.

Importing this module needs Triton. Tables of all KV cache groups lie in one pool (buffers/table_pool.py); every address
is computed in 64 bits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_CHUNK = 1024


@triton.jit(do_not_specialize=["total"])
def _scatter_kernel(pool, bases, widths, packed, total, chunk: tl.constexpr):
    diff = tl.program_id(0)
    lanes = tl.arange(0, chunk)
    group = tl.load(packed + diff)
    row = tl.load(packed + total + diff).to(tl.int64)
    start = tl.load(packed + 2 * total + diff).to(tl.int64)
    count = tl.load(packed + 3 * total + diff)
    nulls = tl.load(packed + 4 * total + diff)
    first = tl.load(packed + 5 * total + diff).to(tl.int64)
    target = pool + tl.load(bases + group) + row * tl.load(widths + group) + start
    source = packed + first + 6 * total
    for at in range(0, count, chunk):
        index = at + lanes
        tl.store(target + index, tl.load(source + index, mask=index < count, other=0), mask=index < count)
    for at in range(0, nulls, chunk):
        index = at + lanes
        tl.store(target + count + index, tl.zeros((chunk,), tl.int32), mask=index < nulls)


@triton.jit(do_not_specialize=["columns"])
def _gather_kernel(
    pool, bases, widths, step_pool, step_bases, index_map, columns, chunk: tl.constexpr,
):  # fmt: skip
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lanes = tl.arange(0, chunk)
    width = tl.load(widths + group)
    slot = tl.load(index_map + row).to(tl.int64)
    source = pool + tl.load(bases + group) + tl.maximum(slot, 0) * width
    target = step_pool + tl.load(step_bases + group) + row * width
    used = tl.minimum(width, columns)
    for at in range(0, used, chunk):
        index = at + lanes
        live = index < used
        blocks = tl.load(source + index, mask=live, other=0)
        tl.store(target + index, tl.where(slot >= 0, blocks, 0), mask=live)


def scatter_diffs(pool: Any, packed: torch.Tensor, total: int) -> None:
    """Put `total` differences, packed as buffers/table_diffs.py says, into the tables of `pool` (a TablePool)."""
    kernel: Any = _scatter_kernel
    kernel[(total,)](pool.flat, pool.bases, pool.widths, packed, total, chunk=_CHUNK)


def gather_rows(pool: Any, step: Any, index_map: torch.Tensor, num_rows: int, columns: int) -> None:
    """Rows of `step` (a TablePool) become rows `index_map` [>= num_rows] of `pool`, null where that is negative.

    Only the first `columns` columns are touched: nothing was ever written behind them.
    """
    kernel: Any = _gather_kernel
    kernel[(num_rows, len(pool.tables))](
        pool.flat, pool.bases, pool.widths, step.flat, step.bases, index_map, columns, chunk=_CHUNK
    )
