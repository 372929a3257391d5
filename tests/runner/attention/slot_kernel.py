"""A kernel that writes down the offset of one slot, as the attention kernels compute it: in one place."""

from __future__ import annotations

import triton
import triton.language as tl
from stepscope.runner.kernels.paged_attention import _offset


@triton.jit
def offset_of_slot(block, within, BLOCK_SIZE: tl.constexpr, token_stride, out):
    tl.store(out, _offset(tl.load(block), within, BLOCK_SIZE, token_stride))
