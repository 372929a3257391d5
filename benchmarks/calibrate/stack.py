"""A Llama-1B decode stack for timing: the layers without attention, built from what torch and Triton offer today.

Only shapes and weights' sizes matter here, so weights are random. Attention is timed apart (attention.py), because its
cost follows KV length and not batch size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@dataclass(frozen=True)
class Shape:
    """Llama-3.2-1B."""

    layers: int = 16
    hidden: int = 2048
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 64
    intermediate: int = 8192
    vocab: int = 128256


@triton.jit
def _add_rmsnorm(x_ptr, res_ptr, w_ptr, out_ptr, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < hidden
    x = tl.load(x_ptr + row * hidden + cols, mask=mask, other=0.0).to(tl.float32)
    r = tl.load(res_ptr + row * hidden + cols, mask=mask, other=0.0).to(tl.float32) + x
    tl.store(res_ptr + row * hidden + cols, r.to(tl.bfloat16), mask=mask)
    scale = 1.0 / tl.sqrt(tl.sum(r * r, axis=0) / hidden + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * hidden + cols, (r * scale * w).to(tl.bfloat16), mask=mask)


@triton.jit
def _rope_kv_write(qkv_ptr, pos_ptr, slot_ptr, cos_ptr, sin_ptr, k_cache, v_cache, HEADS: tl.constexpr,
                   KV: tl.constexpr, HALF: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    width = (HEADS + 2 * KV) * 2 * HALF
    i = tl.arange(0, HALF)
    base = qkv_ptr + token * width + head * 2 * HALF
    lo = tl.load(base + i).to(tl.float32)
    hi = tl.load(base + HALF + i).to(tl.float32)
    pos = tl.load(pos_ptr + token)
    slot = tl.load(slot_ptr + token)
    c = tl.load(cos_ptr + pos * HALF + i)
    s = tl.load(sin_ptr + pos * HALF + i)
    if head < HEADS + KV:
        new_lo = lo * c - hi * s
        new_hi = hi * c + lo * s
        if head < HEADS:
            tl.store(base + i, new_lo.to(tl.bfloat16))
            tl.store(base + HALF + i, new_hi.to(tl.bfloat16))
        else:
            dst = k_cache + (slot * KV + head - HEADS) * 2 * HALF
            tl.store(dst + i, new_lo.to(tl.bfloat16), mask=slot >= 0)
            tl.store(dst + HALF + i, new_hi.to(tl.bfloat16), mask=slot >= 0)
    else:
        dst = v_cache + (slot * KV + head - HEADS - KV) * 2 * HALF
        tl.store(dst + i, lo.to(tl.bfloat16), mask=slot >= 0)
        tl.store(dst + HALF + i, hi.to(tl.bfloat16), mask=slot >= 0)


@triton.jit
def _silu_mul(x_ptr, out_ptr, inter, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < inter
    gate = tl.load(x_ptr + row * 2 * inter + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * inter + inter + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * inter + cols, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=mask)


class Stack:
    """`layers` decoder layers without attention: 4 GEMMs and 4 fused elementwise kernels a layer."""

    def __init__(self, shape: Shape, max_tokens: int, layers: int | None = None) -> None:
        self.shape = shape
        self.layers = layers or shape.layers
        s, dev, dt = shape, "cuda", torch.bfloat16
        g = torch.Generator(device=dev).manual_seed(0)

        def weight(*dims: int) -> torch.Tensor:
            return torch.randn(*dims, device=dev, dtype=dt, generator=g) * 0.02

        qkv = (s.heads + 2 * s.kv_heads) * s.head_dim
        self.weights = [
            (torch.ones(s.hidden, device=dev, dtype=dt), weight(qkv, s.hidden), weight(s.hidden, s.hidden),
             torch.ones(s.hidden, device=dev, dtype=dt), weight(2 * s.intermediate, s.hidden),
             weight(s.hidden, s.intermediate))
            for _ in range(self.layers)
        ]
        self.x = torch.randn(max_tokens, s.hidden, device=dev, dtype=dt, generator=g)
        self.positions = torch.arange(max_tokens, device=dev) % 4096
        self.slots = torch.arange(max_tokens, device=dev)
        angles = torch.arange(4096, device=dev)[:, None] * (
            500000.0 ** (-torch.arange(0, s.head_dim, 2, device=dev) / s.head_dim))
        self.cos, self.sin = angles.cos().float(), angles.sin().float()
        cache = (max_tokens, s.kv_heads, s.head_dim)
        self.k_cache, self.v_cache = (torch.zeros(cache, device=dev, dtype=dt) for _ in range(2))

    def forward(self, n: int) -> torch.Tensor:
        s, half = self.shape, self.shape.head_dim // 2
        x, residual = self.x[:n], torch.zeros_like(self.x[:n])
        for norm1, w_qkv, w_o, norm2, w_up, w_down in self.weights:
            h = torch.empty_like(x)
            _add_rmsnorm[(n,)](x, residual, norm1, h, s.hidden, 1e-5, BLOCK=2048)
            qkv = F.linear(h, w_qkv)
            _rope_kv_write[(n, s.heads + 2 * s.kv_heads)](
                qkv, self.positions, self.slots, self.cos, self.sin, self.k_cache, self.v_cache,
                HEADS=s.heads, KV=s.kv_heads, HALF=half)
            x = F.linear(qkv[:, : s.hidden], w_o)  # the query part stands in for the attention output
            h = torch.empty_like(x)
            _add_rmsnorm[(n,)](x, residual, norm2, h, s.hidden, 1e-5, BLOCK=2048)
            up = F.linear(h, w_up)
            act = torch.empty(n, s.intermediate, device=up.device, dtype=up.dtype)
            _silu_mul[(n, triton.cdiv(s.intermediate, 1024))](up, act, s.intermediate, BLOCK=1024)
            x = F.linear(act, w_down)
        return x + residual
