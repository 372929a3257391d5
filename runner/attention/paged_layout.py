"""How one step's attention is cut up: who writes where, which rows are batched, which stand alone.

Made from common metadata once a step and shared by all layers. Host arrays steer the cutting; lengths, block ids and
slots are read from the device tensors, so that a stale or torn one shows in the result as it would on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from .metadata import CommonAttentionMetadata

MAX_BUCKET_KV_TOKENS = 1 << 18  # bounds the gathered keys of one bucket
PADDING_SHARE = 1.25  # longest row of a bucket against its shortest
PADDING_TOKENS = 64  # a difference not worth a bucket of its own


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """Which tokens go where. `tokens` is None when each of the stream's tokens has a slot; slots [n] int64."""

    tokens: torch.Tensor | None
    slots: torch.Tensor


@dataclass(frozen=True, slots=True)
class SingleQueryBucket:
    """n rows with one query each that read similarly many keys, each from its first block on that it sees.

    tokens  [n] int64, each row's place in the flat stream
    blocks  [n * blocks_per_row] physical block ids
    mask    [n, 1, 1, max_len] float32, -inf behind each row's length and before its window; None when all is seen
    """

    tokens: torch.Tensor
    blocks: torch.Tensor
    max_len: int
    mask: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class ManyQueryRow:
    """A row with several queries, tokens [start, end) of the stream, that reads `num_keys` keys in `blocks`.

    The queries stand at the end of the keys. `window` is None where each of them sees all keys before it.
    """

    start: int
    end: int
    num_keys: int
    blocks: torch.Tensor
    window: int | None


@dataclass(frozen=True, slots=True)
class PagedLayout:
    """The step's work. Tokens and rows that appear nowhere here are padding."""

    write: CacheWrite
    buckets: tuple[SingleQueryBucket, ...]
    rows: tuple[ManyQueryRow, ...]


def lay_out(common: CommonAttentionMetadata, block_size: int) -> PagedLayout:
    """Cut a step: rows with one query into buckets of similar length, the others alone, padding rows nowhere."""
    starts = common.query_start_loc_cpu[: common.num_reqs + 1]
    query_lens, seq_lens = np.diff(starts), _lengths(common)
    single = np.flatnonzero((query_lens == 1) & (seq_lens > 0))
    many = np.flatnonzero((query_lens > 1) & (seq_lens > 0))
    blocks = _first_blocks(common.window, seq_lens, query_lens, block_size)
    read = seq_lens - blocks * block_size
    buckets = (_bucket(common, rows, read[rows], blocks[rows], block_size) for rows in _similar(single, read))
    rows = (_row(common, int(row), int(read[row]), int(blocks[row]), block_size) for row in many)
    return PagedLayout(cache_write(common), tuple(buckets), tuple(rows))


def cache_write(common: CommonAttentionMetadata) -> CacheWrite:
    """Which tokens of the step are written, and where. Waits for a GPU."""
    slots = common.slot_mapping[: common.num_tokens]
    tokens = torch.nonzero(slots >= 0).view(-1)  # -1 means: never written, not even to the null block
    if tokens.numel() == slots.numel():
        return CacheWrite(None, slots)
    return CacheWrite(tokens, slots[tokens])


def _similar(rows: npt.NDArray[np.intp], seq_lens: npt.NDArray[np.int32]) -> list[npt.NDArray[np.intp]]:
    """Rows sorted by length and cut where padding to the longest would cost too much work or memory."""
    if rows.size == 0:
        return []
    order = rows[np.argsort(seq_lens[rows], kind="stable")]
    lens = seq_lens[order].tolist()
    cuts, first = [], 0
    for i, length in enumerate(lens):
        too_long = length > lens[first] * PADDING_SHARE + PADDING_TOKENS
        if too_long or (i > first and (i - first + 1) * length > MAX_BUCKET_KV_TOKENS):
            cuts.append(i)
            first = i
    return np.split(order, cuts)


def _first_blocks(
    window: int | None, seq_lens: npt.NDArray[np.int32], query_lens: npt.NDArray[np.int32], block_size: int
) -> npt.NDArray[np.int32]:
    """The block of each row's first visible key: 0, or the one into which its first query's window reaches."""
    if window is None:
        return np.zeros_like(seq_lens)
    first: npt.NDArray[np.int32] = np.maximum(seq_lens - query_lens - window + 1, 0) // block_size
    return first


def _lengths(common: CommonAttentionMetadata) -> npt.NDArray[np.int32]:
    """[R'] what the device holds: the host's own may still count drafts that were rejected. Waits for a GPU."""
    lengths: npt.NDArray[np.int32] = common.seq_lens[: common.num_reqs].to("cpu", copy=True).numpy()
    return lengths


def _bucket(
    common: CommonAttentionMetadata, rows: npt.NDArray[np.intp], lens: npt.NDArray[np.int32],
    first_blocks: npt.NDArray[np.int32], block_size: int,
) -> SingleQueryBucket:  # fmt: skip
    max_len = int(lens.max())
    device = common.block_table.device
    table = common.block_table[torch.from_numpy(rows).to(device)]
    width = -(-max_len // block_size)
    if first_blocks.any():
        columns = first_blocks[:, None] + np.arange(width, dtype=np.int64)
        columns = np.minimum(columns, table.shape[1] - 1)  # behind a row's own blocks: masked
        table = table.gather(1, torch.from_numpy(columns).to(device))
    tokens = torch.from_numpy(common.query_start_loc_cpu[rows].astype(np.int64)).to(device)
    mask = _mask(lens, max_len, common.window)
    return SingleQueryBucket(tokens, table[:, :width].reshape(-1), max_len, None if mask is None else mask.to(device))


def _mask(lens: npt.NDArray[np.int32], max_len: int, window: int | None) -> torch.Tensor | None:
    """[n, 1, 1, max_len], -inf where a row of `lens` keys has none, or none that it sees; None where all see all."""
    shortest = max_len if window is None else min(max_len, window)
    if int(lens.min()) == max_len == shortest:
        return None
    at = np.arange(max_len)[None, :]
    hidden = at >= lens[:, None]
    if window is not None:
        hidden |= at < lens[:, None] - window
    mask = torch.zeros(hidden.shape).masked_fill_(torch.from_numpy(hidden), float("-inf"))
    return mask.view(lens.size, 1, 1, max_len)


def _row(
    common: CommonAttentionMetadata, row: int, num_keys: int, first_block: int, block_size: int
) -> ManyQueryRow:
    blocks = common.block_table[row, first_block : first_block - (-num_keys // block_size)]
    start, end = common.query_start_loc_cpu[row : row + 2].tolist()
    limits = common.window is not None and num_keys > common.window
    return ManyQueryRow(start, end, num_keys, blocks, common.window if limits else None)
