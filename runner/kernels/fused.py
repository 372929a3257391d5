"""Small kernels of a decoder layer, fused where a launch costs more than the arithmetic.

All are graph-safe: grids follow padded sizes, and what belongs to the step (positions, slots) is read on the device.
Arithmetic is float32 within; each result is rounded once to the tensor's type, where Hugging Face rounds.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_rmsnorm(
    update, residual, weight, out, HIDDEN: tl.constexpr, EPS: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr,
):
    """grid (Q'): with ADD residual += update; out = rmsnorm(residual) * weight. All rows are contiguous [HIDDEN]."""
    row = tl.program_id(0).to(tl.int64) * HIDDEN
    at = tl.arange(0, BLOCK)
    mask = at < HIDDEN
    total = tl.load(residual + row + at, mask=mask, other=0.0)
    if ADD:
        total += tl.load(update + row + at, mask=mask, other=0.0)
        tl.store(residual + row + at, total, mask=mask)
    wide = total.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide, axis=0) / HIDDEN + EPS)
    normed = (wide * scale).to(out.dtype.element_ty)
    tl.store(out + row + at, normed * tl.load(weight + at, mask=mask, other=0.0), mask=mask)


@triton.jit
def rope_and_kv_write(
    qkv, query, key_cache, value_cache, positions, slots, cos, sin,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):
    """grid (Q', cdiv(HEADS + 2 KV_HEADS, BLOCK_HEADS)): q rotated into `query`, k rotated and v as is into the cache.

    qkv [Q', HEADS + 2 KV_HEADS, 2 HALF], query [Q', HEADS, 2 HALF] and the caches [slots, KV_HEADS, 2 HALF] are
    contiguous; cos, sin [positions, HALF] float32. Slot -1 is a padding token: nothing of it reaches the cache.
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    i = tl.arange(0, HALF)
    source = ((token * (HEADS + 2 * KV_HEADS) + head) * 2 * HALF)[:, None] + i[None, :]
    known = (head < HEADS + 2 * KV_HEADS)[:, None]
    low = tl.load(qkv + source, mask=known, other=0.0)
    high = tl.load(qkv + source + HALF, mask=known, other=0.0)
    angle = tl.load(positions + token) * HALF + i
    c = tl.load(cos + angle)[None, :]
    s = tl.load(sin + angle)[None, :]
    turned_low = (low.to(tl.float32) * c - high.to(tl.float32) * s).to(query.dtype.element_ty)
    turned_high = (high.to(tl.float32) * c + low.to(tl.float32) * s).to(query.dtype.element_ty)
    is_query = (head < HEADS)[:, None]
    target = ((token * HEADS + head) * 2 * HALF)[:, None] + i[None, :]
    tl.store(query + target, turned_low, mask=is_query)
    tl.store(query + target + HALF, turned_high, mask=is_query)
    slot = tl.load(slots + token)
    if slot >= 0:
        is_key = ((head >= HEADS) & (head < HEADS + KV_HEADS))[:, None]
        target = ((slot * KV_HEADS + head - HEADS) * 2 * HALF)[:, None] + i[None, :]
        tl.store(key_cache + target, turned_low, mask=is_key)
        tl.store(key_cache + target + HALF, turned_high, mask=is_key)
        is_value = ((head >= HEADS + KV_HEADS) & (head < HEADS + 2 * KV_HEADS))[:, None]
        target -= KV_HEADS * 2 * HALF
        tl.store(value_cache + target, low, mask=is_value)
        tl.store(value_cache + target + HALF, high, mask=is_value)


@triton.jit
def silu_mul(gate_up, out, INTERMEDIATE: tl.constexpr, BLOCK: tl.constexpr):
    """grid (Q', cdiv(INTERMEDIATE, BLOCK)): silu(gate) * up, for gate_up [Q', 2 INTERMEDIATE]."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < INTERMEDIATE
    gate = tl.load(gate_up + row * 2 * INTERMEDIATE + at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * INTERMEDIATE + INTERMEDIATE + at, mask=mask, other=0.0)
    acted = (gate * tl.sigmoid(gate)).to(out.dtype.element_ty)
    tl.store(out + row * INTERMEDIATE + at, acted * up, mask=mask)
