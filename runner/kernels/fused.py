"""Small kernels of a decoder layer, fused where a launch costs more than the arithmetic.

All are graph-safe: one program a token (or token and head), sizes by the grid, no host values but strides.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_rmsnorm(x, residual, weight, out, HIDDEN: tl.constexpr, EPS: tl.constexpr, BLOCK: tl.constexpr):
    """grid (Q'): residual += x; out = rmsnorm(residual) * weight; statistics in float32, as Hugging Face."""
    row = tl.program_id(0).to(tl.int64) * HIDDEN
    at = tl.arange(0, BLOCK)
    mask = at < HIDDEN
    total = tl.load(residual + row + at, mask=mask, other=0.0) + tl.load(x + row + at, mask=mask, other=0.0)
    tl.store(residual + row + at, total, mask=mask)
    wide = total.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide, axis=0) / HIDDEN + EPS)
    normed = (wide * scale).to(out.dtype.element_ty)
    tl.store(out + row + at, normed * tl.load(weight + at, mask=mask, other=0.0), mask=mask)


@triton.jit
def rope_and_kv_write(
    qkv, positions, slots, cos, sin, keys, values, token_stride, head_stride,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr,
):
    """grid (Q', heads + 2 kv_heads): rotate q in place, rotate k into the cache, copy v into the cache.

    cos, sin [max_len, HALF] float32. A slot of -1 is a padding token: nothing is written.
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    i = tl.arange(0, HALF)
    base = qkv + (token * (HEADS + 2 * KV_HEADS) + head) * 2 * HALF
    low = tl.load(base + i).to(tl.float32)
    high = tl.load(base + HALF + i).to(tl.float32)
    slot = tl.load(slots + token)
    if head < HEADS + KV_HEADS:
        angle = tl.load(positions + token) * HALF + i
        c = tl.load(cos + angle)
        s = tl.load(sin + angle)
        turned = low * c - high * s
        high = high * c + low * s
        low = turned
    if head < HEADS:
        tl.store(base + i, low.to(qkv.dtype.element_ty))
        tl.store(base + HALF + i, high.to(qkv.dtype.element_ty))
    elif slot >= 0:
        is_key = head < HEADS + KV_HEADS
        kv_head = tl.where(is_key, head - HEADS, head - HEADS - KV_HEADS)
        at = slot * token_stride + kv_head * head_stride
        if is_key:
            tl.store(keys + at + i, low.to(keys.dtype.element_ty))
            tl.store(keys + at + HALF + i, high.to(keys.dtype.element_ty))
        else:
            tl.store(values + at + i, low.to(values.dtype.element_ty))
            tl.store(values + at + HALF + i, high.to(values.dtype.element_ty))


@triton.jit
def silu_mul(gate_up, out, INTERMEDIATE: tl.constexpr, BLOCK: tl.constexpr):
    """grid (Q', cdiv(intermediate, BLOCK)): silu(gate) * up; gate_up [Q', 2 * intermediate]."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < INTERMEDIATE
    gate = tl.load(gate_up + row * 2 * INTERMEDIATE + at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * INTERMEDIATE + INTERMEDIATE + at, mask=mask, other=0.0)
    acted = (gate * tl.sigmoid(gate)).to(out.dtype.element_ty)
    tl.store(out + row * INTERMEDIATE + at, acted * up, mask=mask)
