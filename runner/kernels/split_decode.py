"""Paged attention in Triton for rows of one query: each row's keys shared out among programs (FlashDecoding).

Graph-safe as `paged_attention` is: the number of splits is the grid's, and a split without keys leaves at once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .paged_attention import attend_tile


@triton.jit(do_not_specialize=["width"])
def split_decode(
    query, keys, values, out, partial, stats, table, seq_lens, width, token_stride, head_stride,
    SCALE: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, TILE: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """grid (kv_heads, R', SPLITS): one query a row; the heads of a row side by side, whose keys lie in the same pages.

    One split writes the row's result into `out`; several write their accumulator into `partial` [R', HEADS, SPLITS,
    HEAD_DIM] and (maximum, sum) into `stats` [R', HEADS, SPLITS, 2], both float32, for `reduce_splits`.
    """
    kv_head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2)
    length = tl.load(seq_lens + row)
    lane = tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM)
    real = lane < GROUP
    head = kv_head * GROUP + lane
    q = tl.load(query + (row * HEADS + head)[:, None] * HEAD_DIM + dim[None, :], mask=real[:, None], other=0.0)
    key_start = 0
    if WINDOW > 0:
        key_start = tl.maximum(length - WINDOW, 0) // TILE * TILE
    share = tl.cdiv(tl.cdiv(length - key_start, SPLITS), TILE) * TILE
    begin = key_start + split * share
    key_end = tl.minimum(begin + share, length)
    whole_tiles = begin + tl.maximum(key_end - begin, 0) // TILE * TILE
    limit = tl.zeros([BLOCK_M], tl.int32) + (length - 1)
    table_row = table + row * width
    k_head, v_head = keys + kv_head * head_stride, values + kv_head * head_stride
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for tile_start in range(begin, whole_tiles, TILE):
        acc, maximum, total = attend_tile(
            q, (acc, maximum, total), k_head, v_head, table_row, tile_start, key_end, limit, token_stride,
            SCALE, BLOCK_SIZE, TILE, HEAD_DIM, PRECISION, WINDOW, MASKED=WINDOW > 0)
    if whole_tiles < key_end:
        acc, maximum, total = attend_tile(
            q, (acc, maximum, total), k_head, v_head, table_row, whole_tiles, key_end, limit, token_stride,
            SCALE, BLOCK_SIZE, TILE, HEAD_DIM, PRECISION, WINDOW, MASKED=True)
    if SPLITS == 1:
        at = (row * HEADS + head)[:, None] * HEAD_DIM + dim[None, :]
        result = acc / tl.where(total == 0.0, 1.0, total)[:, None]  # a padding row has no keys: zeros
        tl.store(out + at, result.to(out.dtype.element_ty), mask=real[:, None])
    else:
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
    scale = tl.exp2(maximum - tl.where(top == float("-inf"), 0.0, top))
    acc = tl.load(partial + (at * SPLITS + split)[:, None] * HEAD_DIM + dim[None, :])
    weight = tl.sum(total * scale, axis=0)
    result = tl.sum(acc * scale[:, None], axis=0) / tl.where(weight == 0.0, 1.0, weight)
    tl.store(out + at * HEAD_DIM + dim, result.to(out.dtype.element_ty))
