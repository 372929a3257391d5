"""Invariant 7 of the article: nobody writes into a block that is not the writer's."""

from __future__ import annotations

import numpy as np

from ..inputs.step_inputs import LongArray
from ..kv_groups import NULL_BLOCK
from ..shards import TWO_SLOTS
from .view import StepView, host, slots_of


def slot_ownership(view: StepView) -> str | None:
    """Each real token writes the slot that its request's own page names; padding writes none; old rows are null.

    Requests may share prefix blocks for reading. A written slot belongs to one token: two writers of one slot are a
    fault even when both own the block. Each KV cache group has slots of its own; a state group has none.
    """
    for group in range(len(view.groups)):
        broken = _slot_fault(view, group) or _table_fault(view, group)
        if broken is not None:
            return f"group {group}: {broken}" if group else broken
    return None


def _slot_fault(view: StepView, group: int) -> str | None:
    slots = slots_of(view, group)
    count = view.inputs.num_tokens
    if not view.groups[group].has_slots:
        return "a state group has slots" if (slots != -1).any() else None
    wanted = _expected_slots(view, group)
    wrong = np.flatnonzero(slots[:count] != wanted)
    if wrong.size:
        return _describe(view, group, int(wrong[0]), wanted)
    if (slots[count:] != -1).any():
        at = count + int(np.flatnonzero(slots[count:] != -1)[0])
        return f"padding token {at} writes slot {slots[at]}"
    if (slots[:count] < view.groups[group].block_size).any():
        at = int(np.flatnonzero(slots[:count] < view.groups[group].block_size)[0])
        fault = "has no slot, its block is" if slots[at] == -1 else "writes"
        return f"token {at} of {_owner(view, at)!r} {fault} the null block"
    if np.unique(slots[:count]).size != count:
        return "two tokens write the same slot"
    return None


def _expected_slots(view: StepView, group: int) -> LongArray:
    """[Q] from the blocks that the scheduler gave, in manager blocks whatever kernels use; capacity was checked before.

    A position whose block is the null block has no slot.
    """
    owned, block_size = [truth.blocks[group] for truth in view.truths], view.groups[group].block_size
    blocks = np.concatenate([np.empty(0, dtype=np.int32), *map(np.asarray, owned)])
    counts = np.asarray([len(ids) for ids in owned], dtype=np.int64)
    first = np.cumsum(counts) - counts
    logical, offset = np.divmod(view.device_positions, block_size)
    named = blocks[first[view.expected_rows] + logical].astype(np.int64)
    expected: LongArray = np.where(named == NULL_BLOCK, -1, named * block_size + offset)
    return expected


def _describe(view: StepView, group: int, token: int, wanted: LongArray) -> str:
    slot = int(slots_of(view, group)[token])
    if slot == TWO_SLOTS:
        return f"token {token} of {_owner(view, token)!r} lies on two ranks"
    block = slot // view.groups[group].block_size
    named = zip(view.inputs.req_ids, view.truths, strict=True)
    owners = [req_id for req_id, truth in named if block in truth.blocks[group]]
    whose = f"block {block} of {', '.join(map(repr, owners))}" if owners else f"block {block}, which no live row owns"
    return (
        f"token {token} of {_owner(view, token)!r} at position {view.device_positions[token]} writes slot"
        f" {slot} ({whose}), not {wanted[token]}"
    )


def _owner(view: StepView, token: int) -> str:
    return view.inputs.req_ids[int(view.expected_rows[token])]


def _table_fault(view: StepView, group: int) -> str | None:
    """What attention reads: live rows as on the host, rows behind the batch null."""
    table, num_reqs = view.batch.block_tables.tables[group], view.inputs.num_reqs
    on_device = host(view.inputs.groups[group].block_table[:, : table.columns_used])
    on_host = table.values[view.batch.rows][:, : table.columns_used]
    stale = np.flatnonzero((on_device[:num_reqs] != on_host).any(axis=1))
    if stale.size:
        row = int(stale[0])
        return f"row {row} of the device's block table is not what the host holds for {view.inputs.req_ids[row]!r}"
    if on_device[num_reqs:].any():
        row = num_reqs + int(np.flatnonzero(on_device[num_reqs:].any(axis=1))[0])
        return f"row {row} of the device's block table lies behind the batch and still names blocks"
    return None
