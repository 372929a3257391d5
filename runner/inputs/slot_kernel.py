"""The Triton kernel that turns positions into KV slots. Importing this module needs Triton.

One program a request, and one more that writes -1 into the slots behind the last real token. Every address is
computed in 64 bits: block * block_size and row * stride pass 2^31 on large caches, and Triton multiplies int32 by
int32 in 32 bits, so operands are cast before they are multiplied.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

PAD_SLOT = -1
_CHUNK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _slot_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - a kernel's operands
    query_start_loc, positions, block_table, slots, logits_indices, num_reqs, capacity,
    row_stride: tl.constexpr, block_size: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, chunk)
    if request == num_reqs:
        used = tl.load(query_start_loc + request).to(tl.int64)
        for first in range(used, capacity, chunk):
            flat = first + lanes
            tl.store(slots + flat, tl.full((chunk,), -1, tl.int64), mask=flat < capacity)
    else:
        start = tl.load(query_start_loc + request).to(tl.int64)
        end = tl.load(query_start_loc + request + 1).to(tl.int64)
        tl.store(logits_indices + request, tl.maximum(end - 1, 0))
        row = block_table + request * row_stride
        for first in range(start, end, chunk):
            flat = first + lanes
            live = flat < end
            position = tl.load(positions + flat, mask=live, other=0)
            block = tl.load(row + position // block_size, mask=live, other=0).to(tl.int64)
            tl.store(slots + flat, block * block_size + position % block_size, mask=live)


def launch_slot_kernel(
    query_start_loc: torch.Tensor, positions: torch.Tensor, block_table: torch.Tensor,
    outputs: tuple[torch.Tensor, torch.Tensor], num_reqs: int, block_size: int,
) -> None:  # fmt: skip
    """Fill `outputs` = (slots [capacity] int64, logits_indices [rows] int64) for `num_reqs` requests."""
    slots, logits_indices = outputs
    kernel: Any = _slot_kernel
    kernel[(num_reqs + 1,)](
        query_start_loc, positions, block_table, slots, logits_indices, num_reqs, slots.numel(),
        row_stride=block_table.stride(0), block_size=block_size, chunk=_CHUNK,
    )  # fmt: skip
