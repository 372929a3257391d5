"""A step put into the runner's device buffers by hand, so that a replay has the rows and KV lengths of real steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..runner.inputs.containers import Containers
from ..runner.inputs.dummy import shared_evenly
from ..runner.inputs.step_inputs import StepInputs
from .replay_shapes import ReplayShape

Ints = npt.NDArray[np.int64]


class _Rows(NamedTuple):
    """Queries, sequence lengths and block ids [R, width] of a step."""

    queries: Ints
    lens: Ints
    table: Ints


def representable(shape: ReplayShape) -> bool:
    """Whether each row can have a token: a step whose rows outnumber its tokens is not rebuilt."""
    return 0 < shape.rows <= shape.tokens


def fill_step(containers: Containers, shape: ReplayShape, num_blocks: int, block_size: int) -> StepInputs:
    """Write a step of this shape into the buffers that graphs read, padding behind it, and describe it.

    KV is shared evenly among the rows. Queries beyond one a row belong to the rows that still prefill (to all, where
    none does). Blocks are distinct as long as the cache has that many.
    """
    rows = _rows(shape, containers.block_table.shape[1], num_blocks, block_size)
    starts = np.concatenate([[0], np.cumsum(rows.queries)])
    owner = np.repeat(np.arange(shape.rows), rows.queries)
    within = np.arange(shape.tokens) - starts[owner]
    positions = (rows.lens - rows.queries)[owner] + within
    slots = rows.table[owner, positions // block_size] * block_size + positions % block_size
    containers.hold_only_padding()
    containers.query_start_loc.fill_(shape.tokens)
    for target, values in (
        (containers.query_start_loc, starts), (containers.seq_lens, rows.lens), (containers.positions, positions),
        (containers.slot_mapping, slots),
    ):
        target[: len(values)].copy_(torch.from_numpy(values))
    containers.block_table[: shape.rows].copy_(torch.from_numpy(rows.table))
    return _inputs(containers, shape, rows, (starts, owner, within, positions))


def _rows(shape: ReplayShape, width: int, num_blocks: int, block_size: int) -> _Rows:
    queries = np.ones(shape.rows, dtype=np.int64)
    longer = shape.prefill_rows or shape.rows
    queries[shape.rows - longer :] += shared_evenly(shape.tokens - shape.rows, longer)
    lens = np.clip(shared_evenly(shape.kv_tokens, shape.rows), queries, max(width * block_size, 1))
    blocks = -(-lens // block_size)
    table = np.zeros((shape.rows, width), dtype=np.int64)
    taken = 0
    for row, count in enumerate(blocks):
        table[row, :count] = 1 + (taken + np.arange(count)) % (num_blocks - 1)
        taken += count
    return _Rows(queries, lens, table)


def _inputs(containers: Containers, shape: ReplayShape, rows: _Rows, flat: tuple[Ints, ...]) -> StepInputs:
    starts, owner, within, positions = flat
    prefilling = np.arange(shape.rows) >= shape.rows - shape.prefill_rows
    narrow = np.int32
    return StepInputs(
        step=0, req_ids=tuple(f"row{row}" for row in range(shape.rows)), num_reqs=shape.rows, num_tokens=shape.tokens,
        num_scheduled=rows.queries.astype(narrow), num_computed=(rows.lens - rows.queries).astype(narrow),
        num_tokens_known=rows.lens.astype(narrow), query_start_loc=starts.astype(narrow),
        req_indices=owner.astype(narrow), query_pos=within.astype(narrow), positions=positions.astype(np.int64),
        seq_lens=rows.lens.astype(narrow), logits_indices=starts[1:] - 1, discard=prefilling, is_prefilling=prefilling,
        input_ids=containers.input_ids, positions_gpu=containers.positions,
        query_start_loc_gpu=containers.query_start_loc, seq_lens_gpu=containers.seq_lens,
        groups=containers.groups,
        logits_indices_gpu=containers.query_start_loc[1:],
    )  # fmt: skip
