"""How one step's attention is cut up: who writes where, which rows are batched, which stand alone.

Made from common metadata once a step and shared by all layers. Host arrays steer the cutting; block ids and slots are
read from the device tensors, so that a stale or torn table shows in the result as it would on a GPU.
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
    """n rows with one query each and similar lengths.

    tokens  [n] int64, each row's place in the flat stream
    blocks  [n * blocks_per_row] physical block ids
    mask    [n, 1, 1, max_len] float32, -inf behind each row's length; None when all are equally long
    """

    tokens: torch.Tensor
    blocks: torch.Tensor
    max_len: int
    mask: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class ManyQueryRow:
    """A row with several queries, tokens [start, end) of the stream, that sees seq_len keys in `blocks`."""

    start: int
    end: int
    seq_len: int
    blocks: torch.Tensor


@dataclass(frozen=True, slots=True)
class PagedLayout:
    """The step's work. Tokens and rows that appear nowhere here are padding."""

    write: CacheWrite
    buckets: tuple[SingleQueryBucket, ...]
    rows: tuple[ManyQueryRow, ...]


def lay_out(common: CommonAttentionMetadata, block_size: int) -> PagedLayout:
    """Cut a step: rows with one query into buckets of similar length, the others alone, padding rows nowhere."""
    starts = common.query_start_loc_cpu[: common.num_reqs + 1]
    query_lens, seq_lens = np.diff(starts), common.seq_lens_cpu[: common.num_reqs]
    single = np.flatnonzero((query_lens == 1) & (seq_lens > 0))
    many = np.flatnonzero((query_lens > 1) & (seq_lens > 0))
    buckets = (_bucket(common, rows, block_size) for rows in _similar(single, seq_lens))
    rows = (_row(common, int(row), block_size) for row in many)
    return PagedLayout(_cache_write(common), tuple(buckets), tuple(rows))


def _cache_write(common: CommonAttentionMetadata) -> CacheWrite:
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


def _bucket(common: CommonAttentionMetadata, rows: npt.NDArray[np.intp], block_size: int) -> SingleQueryBucket:
    lens = common.seq_lens_cpu[rows]
    max_len = int(lens.max())
    device = common.block_table.device
    table = common.block_table[torch.from_numpy(rows).to(device), : -(-max_len // block_size)]
    mask = None
    if int(lens.min()) != max_len:
        behind = np.arange(max_len)[None, :] >= lens[:, None]
        mask = torch.zeros(behind.shape).masked_fill_(torch.from_numpy(behind), float("-inf"))
        mask = mask.view(len(rows), 1, 1, max_len).to(device)
    tokens = torch.from_numpy(common.query_start_loc_cpu[rows].astype(np.int64)).to(device)
    return SingleQueryBucket(tokens, table.reshape(-1), max_len, mask)


def _row(common: CommonAttentionMetadata, row: int, block_size: int) -> ManyQueryRow:
    seq_len = int(common.seq_lens_cpu[row])
    blocks = common.block_table[row, : -(-seq_len // block_size)]
    start, end = common.query_start_loc_cpu[row : row + 2].tolist()
    return ManyQueryRow(start, end, seq_len, blocks)
