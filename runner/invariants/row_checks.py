"""Invariants 1 and 2 of the article: rows and requests name each other, and a row's columns belong to its request.

A check returns None when it holds, else one line that says where it broke.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ..kv_groups import NULL_BLOCK
from ..state.block_table import BlockTable
from ..state.input_batch import InputBatch
from ..state.request_state import CachedRequestState
from .truth import RequestTruth
from .view import StepView, first_difference


def row_bijection(view: StepView) -> str | None:
    """Row -> id and id -> row are inverse to each other, and the scheduled requests are exactly those with a row."""
    batch = view.batch
    everybody = batch.id_column.values
    rows = step_rows(batch)
    for row in rows:
        req_id = everybody[row]
        if req_id is None or batch.row_of.get(req_id) != row:
            return f"row {row} holds {req_id!r}, whose row is {batch.row_of.get(req_id or '')}"
    shown = tuple(everybody[row] for row in rows)
    broken = _stray_row(batch)
    if broken is not None:
        return broken
    if shown != view.inputs.req_ids:
        return f"inputs were built for the rows {view.inputs.req_ids}, but the batch holds {shown}"
    placed = batch.row_of.keys() if batch.leaves_when_unscheduled else set(view.inputs.req_ids)
    if placed != view.delta.num_scheduled_tokens.keys():
        odd = min(placed ^ view.delta.num_scheduled_tokens.keys())
        return f"{odd!r} has a row or is scheduled, but not both"
    return None


def step_rows(batch: InputBatch) -> list[int]:
    """Where the requests of the step live, in its order."""
    rows: list[int] = np.arange(batch.max_num_seqs)[batch.rows].tolist()
    return rows


def _stray_row(batch: InputBatch) -> str | None:
    """A row that nobody owns is empty; where rows are packed, none lies behind those of the step."""
    everybody = batch.id_column.values
    if batch.leaves_when_unscheduled:
        if any(req_id is not None for req_id in everybody[batch.num_reqs :]):
            return f"a row behind the {batch.num_reqs} live ones still holds a request"
        return None
    for row, req_id in enumerate(everybody):
        if req_id is not None and batch.row_of.get(req_id) != row:
            return f"slot {row} still holds {req_id!r}, whose slot is {batch.row_of.get(req_id)}"
    return None


def row_ownership(view: StepView) -> str | None:
    """History, counts, sampling options and blocks of a row are its request's, in both views of the request."""
    return _first(_count_differences(view)) or _first(_row_differences(view)) or _stale_tail(view.batch)


def _count_differences(view: StepView) -> Iterable[str | None]:
    batch, truths, rows = view.batch, view.truths, view.batch.rows
    yield first_difference(batch.num_tokens[rows], _ints(t.num_tokens for t in truths), "num_tokens")
    yield first_difference(batch.num_prompt[rows], _ints(t.prompt.size for t in truths), "num_prompt")
    yield first_difference(batch.num_computed[rows], view.expected_computed, "num_computed")
    for name in ("temperature", "top_k", "top_p"):
        column = getattr(batch, name)[rows]
        wanted = np.asarray([getattr(t.sampling, name) for t in truths], dtype=column.dtype)
        yield first_difference(column, wanted, name)
        yield first_difference(getattr(batch.sampling, name), wanted, f"sampling metadata's {name}")


def _row_differences(view: StepView) -> Iterable[str | None]:
    batch, tokens = view.batch, view.batch.token_ids.values
    generators = batch.sampling.generators
    rows = step_rows(batch)
    for place, (row, req_id, truth) in enumerate(zip(rows, view.inputs.req_ids, view.truths, strict=True)):
        if tokens[row, : truth.num_tokens].tobytes() != truth.history():
            yield f"row {row} does not hold the token history of {req_id!r}"
        yield from (_block_difference(view, place, row, group) for group in range(len(view.groups)))
        state = view.requests.get(req_id)
        if state is None:
            yield f"{req_id!r} has row {row}, but no request state"
            continue
        yield _state_difference(state, truth, counts=batch.counts_in_states)
        if batch.generators.values[row] is not state.generator or generators.get(place) is not state.generator:
            yield f"row {row} draws from another request's generator than {req_id!r}"


def _state_difference(state: CachedRequestState, truth: RequestTruth, *, counts: bool) -> str | None:
    if state.block_ids != truth.blocks:
        return f"the state of {state.req_id!r} has blocks {_lists(state.block_ids)}, not {_lists(truth.blocks)}"
    if state.output_token_ids != truth.outputs:
        return f"the state of {state.req_id!r} has other output tokens than were sampled"
    if counts and state.num_computed_tokens != truth.num_computed:
        return f"the state of {state.req_id!r} counts {state.num_computed_tokens} computed, not {truth.num_computed}"
    return None


def _block_difference(view: StepView, place: int, row: int, group: int) -> str | None:
    """A row holds the blocks that its request owns; below a window, where nobody looks any more, null blocks."""
    table, req_id = view.batch.block_tables.tables[group], view.inputs.req_ids[place]
    blocks, owned = table.values[row, : table.num_blocks[row]], view.kernel_blocks(place, group)
    if blocks.size == owned.size:
        unseen = np.arange(owned.size) < view.num_unseen(place, group)
        if ((blocks == owned) | (unseen & (blocks == NULL_BLOCK))).all():
            return None
    where = f" of group {group}" if group else ""
    return f"row {row}{where} has blocks {blocks.tolist()}, but {req_id!r} owns {owned.tolist()}"


def _lists(blocks: Sequence[array[int]]) -> str:
    """One list where there is one group."""
    return ", ".join(str(ids.tolist()) for ids in blocks)


def _stale_tail(batch: InputBatch) -> str | None:
    return _first(_stale_blocks(batch, table) for table in batch.block_tables.tables)


def _stale_blocks(batch: InputBatch, table: BlockTable) -> str | None:
    columns = np.arange(table.columns_used)
    live, lengths = table.values[batch.rows][:, : table.columns_used], table.num_blocks[batch.rows]
    stale = np.argwhere((columns >= lengths[:, None]) & (live != 0))
    if not stale.size:
        return None
    place, column = stale[0].tolist()
    row = step_rows(batch)[place]
    return f"row {row} shows block {live[place, column]} in column {column}, behind its {lengths[place]} blocks"


def _first(differences: Iterable[str | None]) -> str | None:
    return next((difference for difference in differences if difference is not None), None)


def _ints(values: Iterable[int] | Sequence[int]) -> npt.NDArray[np.int32]:
    return np.fromiter(values, dtype=np.int32)
