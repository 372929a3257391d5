"""New keys and values into the paged cache, by slot."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def kv_write(
    key, value, key_cache, value_cache, slots, key_stride, value_stride, KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
):
    """grid (Q', kv_heads). Caches are contiguous [slots, kv_heads, head_dim]; slot -1 is padding and writes nothing."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    slot = tl.load(slots + token)
    if slot >= 0:
        dim = tl.arange(0, HEAD_DIM)
        target = (slot * KV_HEADS + head) * HEAD_DIM + dim
        tl.store(key_cache + target, tl.load(key + token * key_stride + head * HEAD_DIM + dim))
        tl.store(value_cache + target, tl.load(value + token * value_stride + head * HEAD_DIM + dim))
