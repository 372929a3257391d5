"""Paged attention in Triton: causal, grouped-query, prefill and decode rows in one launch, split-KV for decode.

Graph-safe: grids depend on padded sizes only, every length is read on the device, and offsets are 64-bit because a slot
times a row stride passes 2^31 on large caches. Nothing is specialised by the step's numbers, which would compile a
kernel anew in the middle of a run. The online softmax follows FlashAttention (Dao et al., 2022), the split
and its reduction FlashDecoding.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _row_of_block(starts, block, num_reqs, BLOCK_Q: tl.constexpr):
    """The row whose query blocks contain `block`: row i owns the blocks from starts[i] // BLOCK_Q + i on."""
    low = 0
    high = num_reqs
    while low < high:
        middle = (low + high) // 2
        first = tl.load(starts + middle) // BLOCK_Q + middle
        if first <= block:
            low = middle + 1
        else:
            high = middle
    return low - 1


@triton.jit
def _offset(block, within, BLOCK_SIZE: tl.constexpr, token_stride):
    """Element offset of a slot: widened before it is multiplied (case: 64,000 blocks of 16 x 32 heads x 128)."""
    return (block.to(tl.int64) * BLOCK_SIZE + within) * token_stride


@triton.jit
def _offset_of_slot(block, within, BLOCK_SIZE: tl.constexpr, token_stride, out):
    """For tests: the offset of one slot."""
    tl.store(out, _offset(tl.load(block), within, BLOCK_SIZE, token_stride))


@triton.jit
def _attend_tile(
    query, state, keys, values, table_row, tile_start, key_end, limit, kv_head, strides,
    SCALE: tl.constexpr, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr, HEAD_DIM: tl.constexpr, PRECISION: tl.constexpr,
):
    """One tile of keys folded into the running (accumulator, maximum, sum) of the online softmax."""
    acc, maximum, total = state
    token_stride, head_stride = strides
    at = tile_start + tl.arange(0, TILE)
    dim = tl.arange(0, HEAD_DIM)
    inside = at < key_end
    block = tl.load(table_row + at // BLOCK_SIZE, mask=inside, other=0)
    offset = _offset(block, at % BLOCK_SIZE, BLOCK_SIZE, token_stride) + kv_head * head_stride
    k = tl.load(keys + offset[None, :] + dim[:, None], mask=inside[None, :], other=0.0)
    scores = tl.dot(query, k, input_precision=PRECISION) * SCALE
    visible = inside[None, :] & (at[None, :] <= limit[:, None])
    scores = tl.where(visible, scores, float("-inf"))
    new_maximum = tl.maximum(maximum, tl.max(scores, axis=1))
    safe = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
    weights = tl.exp(scores - safe[:, None])
    decay = tl.exp(maximum - safe)
    v = tl.load(values + offset[:, None] + dim[None, :], mask=inside[:, None], other=0.0)
    acc = acc * decay[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
    return acc, new_maximum, total * decay + tl.sum(weights, axis=1)


@triton.jit(do_not_specialize=["num_reqs", "width"])
def mixed_attention(
    query, keys, values, out, table, seq_lens, starts, num_reqs, width, token_stride, head_stride,
    SCALE: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
):
    """grid (Q' // BLOCK_Q + R', kv_heads): one block of a request's queries, all query heads of one KV head."""
    block = tl.program_id(0)
    kv_head = tl.program_id(1)
    row = _row_of_block(starts, block, num_reqs, BLOCK_Q)
    start = tl.load(starts + row)
    length = tl.load(starts + row + 1) - start
    first = (block - (start // BLOCK_Q + row)) * BLOCK_Q
    if first >= length:
        return
    context = tl.load(seq_lens + row) - length
    lane = tl.arange(0, BLOCK_M)
    position = first + lane // GROUP
    head = kv_head * GROUP + lane % GROUP
    dim = tl.arange(0, HEAD_DIM)
    real = (position < length) & (lane < BLOCK_Q * GROUP)
    at = ((start + position).to(tl.int64) * HEADS + head)[:, None] * HEAD_DIM + dim[None, :]
    q = tl.load(query + at, mask=real[:, None], other=0.0)
    limit = tl.where(real, context + position, -1)
    key_end = tl.minimum(context + first + BLOCK_Q, context + length)
    table_row = table + row.to(tl.int64) * width
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for tile_start in range(0, key_end, TILE):
        acc, maximum, total = _attend_tile(
            q, (acc, maximum, total), keys, values, table_row, tile_start, key_end, limit, kv_head,
            (token_stride, head_stride), SCALE, BLOCK_SIZE, TILE, HEAD_DIM, PRECISION)
    result = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=real[:, None])


@triton.jit(do_not_specialize=["width"])
def split_decode(
    query, keys, values, partial, stats, table, seq_lens, width, token_stride, head_stride,
    SCALE: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, TILE: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr,
):
    """grid (R', kv_heads, SPLITS): one query a row; writes each split's accumulator, maximum and sum in float32."""
    row = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(seq_lens + row)
    lane = tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM)
    real = lane < GROUP
    head = kv_head * GROUP + lane
    q = tl.load(query + (row * HEADS + head)[:, None] * HEAD_DIM + dim[None, :], mask=real[:, None], other=0.0)
    share = tl.cdiv(tl.cdiv(length, SPLITS), TILE) * TILE
    begin = split * share
    key_end = tl.minimum(begin + share, length)
    limit = tl.where(real, length - 1, -1)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for tile_start in range(begin, key_end, TILE):
        acc, maximum, total = _attend_tile(
            q, (acc, maximum, total), keys, values, table + row * width, tile_start, key_end, limit, kv_head,
            (token_stride, head_stride), SCALE, BLOCK_SIZE, TILE, HEAD_DIM, PRECISION)
    at = (row * HEADS + head) * SPLITS + split
    tl.store(partial + at[:, None] * HEAD_DIM + dim[None, :], acc, mask=real[:, None])
    tl.store(stats + at * 2, maximum, mask=real)
    tl.store(stats + at * 2 + 1, total, mask=real)


@triton.jit
def reduce_splits(partial, stats, out, SPLITS: tl.constexpr, HEAD_DIM: tl.constexpr):
    """grid (R' * heads): the splits of one query head put together."""
    at = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    dim = tl.arange(0, HEAD_DIM)
    maximum = tl.load(stats + (at * SPLITS + split) * 2)
    total = tl.load(stats + (at * SPLITS + split) * 2 + 1)
    top = tl.max(maximum, axis=0)
    scale = tl.exp(maximum - tl.where(top == float("-inf"), 0.0, top))
    acc = tl.load(partial + (at * SPLITS + split)[:, None] * HEAD_DIM + dim[None, :])
    weight = tl.sum(total * scale, axis=0)
    result = tl.sum(acc * scale[:, None], axis=0) / tl.where(weight == 0.0, 1.0, weight)
    tl.store(out + at * HEAD_DIM + dim, result.to(out.dtype.element_ty))
