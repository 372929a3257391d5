"""Invariant 7 of the article: nobody writes into a block that is not the writer's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..inputs.step_inputs import LongArray
from .view import StepView, host


def slot_ownership(view: StepView) -> str | None:
    """Each real token writes the slot that its request's own page names; padding writes none; old rows are null.

    Requests may share prefix blocks for reading. A written slot belongs to one token: two writers of one slot are a
    fault even when both own the block.
    """
    slots = host(view.inputs.slot_mapping)
    count = view.inputs.num_tokens
    wanted = _expected_slots(view)
    wrong = np.flatnonzero(slots[:count] != wanted)
    if wrong.size:
        return _describe(view, int(wrong[0]), slots, wanted)
    if (slots[count:] != -1).any():
        at = count + int(np.flatnonzero(slots[count:] != -1)[0])
        return f"padding token {at} writes slot {slots[at]}"
    if (slots[:count] < view.block_size).any():
        at = int(np.flatnonzero(slots[:count] < view.block_size)[0])
        return f"token {at} of {_owner(view, at)!r} writes the null block"
    if np.unique(slots[:count]).size != count:
        return "two tokens write the same slot"
    return _table_fault(view)


def _expected_slots(view: StepView) -> LongArray:
    """[Q] from the blocks that the scheduler gave; capacity was checked before."""
    blocks = np.concatenate([np.empty(0, dtype=np.int32), *(np.asarray(truth.blocks) for truth in view.truths)])
    counts = np.asarray([len(truth.blocks) for truth in view.truths], dtype=np.int64)
    first = np.cumsum(counts) - counts
    logical, offset = np.divmod(view.expected_positions, view.block_size)
    expected: LongArray = blocks[first[view.expected_rows] + logical].astype(np.int64) * view.block_size + offset
    return expected


def _describe(view: StepView, token: int, slots: npt.NDArray[np.int64], wanted: LongArray) -> str:
    block = int(slots[token]) // view.block_size
    owners = [req_id for req_id, truth in zip(view.inputs.req_ids, view.truths, strict=True) if block in truth.blocks]
    whose = f"block {block} of {', '.join(map(repr, owners))}" if owners else f"block {block}, which no live row owns"
    return (
        f"token {token} of {_owner(view, token)!r} at position {view.expected_positions[token]} writes slot"
        f" {slots[token]} ({whose}), not {wanted[token]}"
    )


def _owner(view: StepView, token: int) -> str:
    return view.inputs.req_ids[int(view.expected_rows[token])]


def _table_fault(view: StepView) -> str | None:
    """What attention reads: live rows as on the host, rows behind the batch null."""
    table, num_reqs = view.batch.block_table, view.inputs.num_reqs
    on_device = host(view.inputs.block_table_gpu[:, : table.columns_used])
    stale = np.flatnonzero((on_device[:num_reqs] != table.values[:num_reqs, : table.columns_used]).any(axis=1))
    if stale.size:
        row = int(stale[0])
        return f"row {row} of the device's block table is not what the host holds for {view.inputs.req_ids[row]!r}"
    if on_device[num_reqs:].any():
        row = num_reqs + int(np.flatnonzero(on_device[num_reqs:].any(axis=1))[0])
        return f"row {row} of the device's block table lies behind the batch and still names blocks"
    return None
