"""The Triton kernel behind the scatter road. Its body is traced by Triton: loads and stores, no Python objects."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_CHUNK = 256


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _scatter_kernel(  # type: ignore[no-untyped-def]
    pairs, sampled, input_ids, count, width: tl.constexpr, chunk: tl.constexpr
):
    """input_ids[pairs[i]] = sampled[pairs[count + i], 0]."""
    index = tl.program_id(0) * chunk + tl.arange(0, chunk)
    live = index < count
    place = tl.load(pairs + index, mask=live, other=0)
    row = tl.load(pairs + count + index, mask=live, other=0)
    token = tl.load(sampled + row.to(tl.int64) * width, mask=live, other=0)
    tl.store(input_ids + place, token, mask=live)


def scatter_tokens(pairs: torch.Tensor, sampled: torch.Tensor, input_ids: torch.Tensor, count: int) -> None:
    """Put `count` tokens of `sampled` [rows, width] into `input_ids`; `pairs` holds their places, then their rows."""
    kernel: Any = _scatter_kernel
    grid = (triton.cdiv(count, _CHUNK),)
    kernel[grid](pairs, sampled, input_ids, count, width=sampled.shape[1], chunk=_CHUNK)
