"""Paged attention in Triton for any batch: causal, grouped-query, prefill and decode rows in one launch.

Graph-safe: grids depend on padded sizes only, every length is read on the device, and offsets are 64-bit because a slot
times a row stride passes 2^31 on large caches. Nothing is specialised by the step's numbers, which would compile a
kernel anew in the middle of a run. The online softmax follows FlashAttention (Dao et al., 2022), in powers of two:
`SCALE` holds log2(e), so an exponential is one instruction and the scaling part of a multiply-add.
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
def attend_tile(
    query, state, keys, values, table_row, tile_start, key_end, limit, token_stride,
    SCALE: tl.constexpr, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr, HEAD_DIM: tl.constexpr, PRECISION: tl.constexpr,
    WINDOW: tl.constexpr, MASKED: tl.constexpr,
):
    """One tile of keys folded into the running (accumulator, maximum, sum) of the online softmax.

    `keys` and `values` start at the KV head. Without MASKED every query sees all TILE keys, which spares the loads
    their masks; with it a query sees keys up to its `limit` (the last WINDOW of them, if that is not 0), and none is
    read from `key_end` on. Without a window each query must see a key of the first tile that it meets, so that the
    maximum is finite.
    """
    acc, maximum, total = state
    at = tile_start + tl.arange(0, TILE)
    dim = tl.arange(0, HEAD_DIM)
    inside = at < key_end
    if MASKED:
        block = tl.load(table_row + at // BLOCK_SIZE, mask=inside, other=0)
    else:
        block = tl.load(table_row + at // BLOCK_SIZE)
    offset = _offset(block, at % BLOCK_SIZE, BLOCK_SIZE, token_stride)
    if MASKED:
        k = tl.load(keys + offset[None, :] + dim[:, None], mask=inside[None, :], other=0.0)
        v = tl.load(values + offset[:, None] + dim[None, :], mask=inside[:, None], other=0.0)
    else:
        k = tl.load(keys + offset[None, :] + dim[:, None])
        v = tl.load(values + offset[:, None] + dim[None, :])
    scores = tl.dot(query, k, input_precision=PRECISION)
    if MASKED:
        visible = at[None, :] <= limit[:, None]
        if WINDOW > 0:
            visible &= limit[:, None] - at[None, :] < WINDOW
        scores = tl.where(visible, scores, float("-inf"))
    new_maximum = tl.maximum(maximum, tl.max(scores, axis=1) * SCALE)
    finite = new_maximum
    if WINDOW > 0:  # the last queries of a block may see nothing of the first one's keys
        finite = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
    weights = tl.exp2(scores * SCALE - finite[:, None])
    decay = tl.exp2(maximum - finite)
    acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None], input_precision=PRECISION)
    return acc, new_maximum, total * decay + tl.sum(weights, axis=1)


@triton.jit(do_not_specialize=["num_reqs", "width"])
def mixed_attention(
    query, keys, values, out, table, seq_lens, starts, num_reqs, width, token_stride, head_stride,
    SCALE: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr, WINDOW: tl.constexpr,
):
    """grid (kv_heads, Q' // BLOCK_Q + R'): one block of a request's queries, all query heads of one KV head.

    Blocks run from the last to the first, because those at a prompt's end see the most keys: started last they would
    be what the GPU waits for.
    """
    kv_head = tl.program_id(0)
    block = tl.num_programs(1) - 1 - tl.program_id(1)
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
    limit = context + position
    key_end = context + tl.minimum(first + BLOCK_Q, length)
    seen_by_all = (context + first + 1) // TILE * TILE
    key_start = 0
    if WINDOW > 0:
        key_start = tl.maximum(context + first + 1 - WINDOW, 0) // TILE * TILE
    table_row = table + row.to(tl.int64) * width
    k_head, v_head = keys + kv_head * head_stride, values + kv_head * head_stride
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for tile_start in range(key_start, seen_by_all, TILE):
        acc, maximum, total = attend_tile(
            q, (acc, maximum, total), k_head, v_head, table_row, tile_start, key_end, limit, token_stride,
            SCALE, BLOCK_SIZE, TILE, HEAD_DIM, PRECISION, WINDOW, MASKED=WINDOW > 0)
    for tile_start in tl.range(seen_by_all, key_end, TILE, num_stages=1):
        acc, maximum, total = attend_tile(
            q, (acc, maximum, total), k_head, v_head, table_row, tile_start, key_end, limit, token_stride,
            SCALE, BLOCK_SIZE, TILE, HEAD_DIM, PRECISION, WINDOW, MASKED=True)
    tl.store(out + at, (acc / total[:, None]).to(out.dtype.element_ty), mask=real[:, None])
