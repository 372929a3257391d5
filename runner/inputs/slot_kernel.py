"""The Triton kernel that turns positions into KV slots. Importing this module needs Triton.

A column of programs for each request, and one more that writes -1 into the slots behind the last real token. Every
address is computed in 64 bits: block * block_size and row * stride pass 2^31 on large caches, and Triton multiplies
int32 by int32 in 32 bits, so operands are cast before they are multiplied.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from ..shards import Shard

_CHUNK = 1024
_WHOLE = Shard(0, 1, 1)
_MOST_PROGRAMS = 8
"""A request's chunks depend on nothing but its boundaries, so they run side by side: 8,192 tokens in one turn."""


@triton.jit(do_not_specialize=["num_reqs"])  # type: ignore[untyped-decorator]
def _slot_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - a kernel's operands
    query_start_loc, positions, block_table, slots, logits_indices, num_reqs, capacity,
    row_stride: tl.constexpr, block_size: tl.constexpr, chunk: tl.constexpr,
    rank: tl.constexpr, ranks: tl.constexpr, interleave: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, chunk)
    skipped = tl.program_id(1) * chunk
    turn = tl.num_programs(1) * chunk
    start = tl.load(query_start_loc + request).to(tl.int64)
    if request == num_reqs:
        for first in range(start + skipped, capacity, turn):
            flat = first + lanes
            tl.store(slots + flat, tl.full((chunk,), -1, tl.int64), mask=flat < capacity)
    else:
        end = tl.load(query_start_loc + request + 1).to(tl.int64)
        if skipped == 0:
            tl.store(logits_indices + request, tl.maximum(end - 1, 0))
        row = block_table + request * row_stride
        for first in range(start + skipped, end, turn):
            flat = first + lanes
            live = flat < end
            position = tl.load(positions + flat, mask=live, other=0)
            block = tl.load(row + position // block_size, mask=live, other=0).to(tl.int64)
            slot = tl.where(block == 0, -1, block * block_size + position % block_size)  # the null block keeps nothing
            if ranks > 1:  # `block_size` is that of all ranks; see shards.Shard
                own = (block != 0) & (slot // interleave % ranks == rank)
                slot = tl.where(own, slot // (ranks * interleave) * interleave + slot % interleave, -1)
            tl.store(slots + flat, slot, mask=live)


def compile_slot_kernel(*operands: Any) -> Any:
    """The kernel's compiled form for such operands, to be called as `compiled[grid](*operands)`, tensors as addresses.

    None in Triton's interpreter, which compiles nothing. The one place that asks Triton, so that a benchmark without a
    GPU can put an empty body in its stead.
    """
    kernel: Any = _slot_kernel
    return kernel.warmup(*operands, grid=(1,))


class SlotKernel:
    """The kernel, compiled for one set of tensors and bound to their addresses, which must not change.

    An ordinary launch inspects each operand to find its compiled form, and asks the driver about each pointer: more
    than the rest of the launch costs. Nothing of that changes between steps, so it is done here, once, and before the
    first step. The tensors: query_start_loc [rows + 1] int32, positions [capacity] int64, block_table [rows, width]
    int32, slots [capacity] int64, logits_indices [rows] int64.
    """

    def __init__(
        self, query_start_loc: torch.Tensor, positions: torch.Tensor, block_table: torch.Tensor,
        outputs: tuple[torch.Tensor, torch.Tensor], block_size: int, shard: Shard = _WHOLE,
    ) -> None:  # fmt: skip
        self._tensors = (query_start_loc, positions, block_table, *outputs)  # an address alone keeps no memory
        self._last = (outputs[0].numel(), block_table.stride(0), block_size, _CHUNK, *shard)
        compiled = compile_slot_kernel(*self._tensors, 0, *self._last)
        self._kernel: Any = compiled or _slot_kernel
        self._operands = tuple(tensor.data_ptr() for tensor in self._tensors) if compiled else self._tensors

    def __call__(self, num_reqs: int, num_tokens: int) -> None:
        """Fill slots and logits_indices for `num_reqs` requests of together `num_tokens` tokens, on the current stream.

        `num_tokens` only says how many programs share a request's tokens.
        """
        longest = num_tokens - num_reqs + 1  # where every request has a token
        columns = min(max(-(-longest // _CHUNK), 1), _MOST_PROGRAMS)
        self._kernel[(num_reqs + 1, columns, 1)](*self._operands, num_reqs, *self._last)
