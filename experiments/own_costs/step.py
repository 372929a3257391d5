"""A step put into the runner's device buffers by hand, so that a replay has the rows and KV lengths of real steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ...runner.inputs.containers import Containers
from ...runner.inputs.dummy import shared_evenly
from ...runner.inputs.step_inputs import GroupTensors, StepInputs
from ...runner.kv_groups import KVGroup
from .shapes import ReplayShape

Ints = npt.NDArray[np.int64]


class _Rows(NamedTuple):
    """Queries and sequence lengths [R] of a step."""

    queries: Ints
    lens: Ints


def representable(shape: ReplayShape) -> bool:
    """Whether each row can have a token: a step whose rows outnumber its tokens is not rebuilt."""
    return 0 < shape.rows <= shape.tokens


def fill_step(
    containers: Containers, shape: ReplayShape, num_blocks: int, groups: Sequence[KVGroup]
) -> StepInputs:
    """Write a step of this shape into the buffers that graphs read, padding behind it, and describe it.

    KV is shared evenly among the rows. Queries beyond one a row belong to the rows that still prefill (to all, where
    none does). Blocks are distinct in each KV cache group as long as the cache has that many.
    """
    reach = (
        tensors.block_table.shape[1] * group.kernel_block_size
        for group, tensors in zip(groups, containers.groups, strict=True) if group.has_slots
    )  # fmt: skip
    rows = _rows(shape, max(min(reach), 1))
    starts = np.concatenate([[0], np.cumsum(rows.queries)])
    owner = np.repeat(np.arange(shape.rows), rows.queries)
    within = np.arange(shape.tokens) - starts[owner]
    positions = (rows.lens - rows.queries)[owner] + within
    containers.hold_only_padding()
    containers.query_start_loc.fill_(shape.tokens)
    for target, values in (
        (containers.query_start_loc, starts), (containers.seq_lens, rows.lens), (containers.positions, positions),
    ):
        target[: len(values)].copy_(torch.from_numpy(values))
    for group, tensors in zip(groups, containers.groups, strict=True):
        if group.has_slots:
            _fill_group(group, tensors, rows.lens, num_blocks, (owner, positions))
    return _inputs(containers, shape, rows, (starts, owner, within, positions))


def _fill_group(
    group: KVGroup, tensors: GroupTensors, lens: Ints, num_blocks: int, flat: tuple[Ints, Ints]
) -> None:
    """A block table of `lens` tokens a row, and the slots of the flat tokens, given by owner and position."""
    size, (owner, positions) = group.kernel_block_size, flat
    table = np.zeros((lens.size, tensors.block_table.shape[1]), dtype=np.int64)
    taken = 0
    for row, count in enumerate(-(-lens // size)):
        table[row, :count] = group.ratio + (taken + np.arange(count)) % ((num_blocks - 1) * group.ratio)
        taken += count
    slots = table[owner, positions // size] * size + positions % size
    for shard, own in zip(group.shards, tensors.slots.view(group.shards.ranks, -1), strict=True):
        own[: slots.size].copy_(torch.from_numpy(shard.slots(slots)))
    tensors.block_table[: lens.size].copy_(torch.from_numpy(table))


def _rows(shape: ReplayShape, most_tokens: int) -> _Rows:
    queries = np.ones(shape.rows, dtype=np.int64)
    longer = shape.prefill_rows or shape.rows
    queries[shape.rows - longer :] += shared_evenly(shape.tokens - shape.rows, longer)
    lens = np.clip(shared_evenly(shape.kv_tokens, shape.rows), queries, most_tokens)
    return _Rows(queries, lens)


def _inputs(containers: Containers, shape: ReplayShape, rows: _Rows, flat: tuple[Ints, ...]) -> StepInputs:
    starts, owner, within, positions = flat
    prefilling = np.arange(shape.rows) >= shape.rows - shape.prefill_rows
    narrow = np.int32
    return StepInputs(
        step=0, req_ids=tuple(f"row{row}" for row in range(shape.rows)), num_reqs=shape.rows, num_tokens=shape.tokens,
        num_scheduled=rows.queries.astype(narrow), num_computed=(rows.lens - rows.queries).astype(narrow),
        query_start_loc=starts.astype(narrow),
        req_indices=owner.astype(narrow), query_pos=within.astype(narrow), positions=positions.astype(np.int64),
        seq_lens=rows.lens.astype(narrow), logits_indices=starts[1:] - 1, discard=prefilling, is_prefilling=prefilling,
        input_ids=containers.input_ids, positions_gpu=containers.positions,
        query_start_loc_gpu=containers.query_start_loc, seq_lens_gpu=containers.seq_lens,
        groups=containers.groups,
        logits_indices_gpu=containers.query_start_loc[1:],
    )  # fmt: skip
