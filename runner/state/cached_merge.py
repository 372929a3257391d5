"""Differences of known requests: the middle of a delta's merge, and nearly all of it in a steady batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ...workloads.step import BlockIds, CachedRequests
from .input_batch import InputBatch
from .request_state import CachedRequestState, own_blocks

_Residents = tuple[npt.NDArray[np.intp], list[CachedRequestState]]
"""Rows and states of the requests of a delta, in its order."""


class CachedMerge:
    """Applies `CachedRequests` to both views of the requests."""

    def __init__(self, batch: InputBatch, requests: dict[str, CachedRequestState]) -> None:
        self.batch = batch
        self.requests = requests
        self._known: tuple[object, tuple[str, ...], _Residents] | None = None  # with the batch's epoch, and ids

    def merge(self, cached: CachedRequests, step: int) -> list[CachedRequestState]:
        """Apply the differences; returns the requests that have no row and need one.

        Raises UsageError for a request that was never announced, or for blocks of other cache groups than the runner's.
        """
        if not cached.req_ids:
            return []
        residents = self._residents_of(cached)
        if residents is not None:
            self.batch.residents_are(cached.req_ids, residents[0])
            self._merge_residents(cached, *residents, step)
            return []
        requests, row_of = self.requests, self.batch.row_of
        arriving: list[CachedRequestState] = []
        for index, req_id in enumerate(cached.req_ids):
            state = _known(requests, req_id, step)
            state.num_computed_tokens = cached.num_computed_tokens[index]
            row = row_of.get(req_id)
            self._merge_blocks(state, row, cached, index, step)
            if row is None:
                _refresh_history(state, cached)
                arriving.append(state)
            else:
                self.batch.num_computed[row] = state.num_computed_tokens
        return arriving

    def _merge_residents(
        self, cached: CachedRequests, rows: npt.NDArray[np.intp], states: list[CachedRequestState], step: int
    ) -> None:
        """The common step: every request has its row, most only count on."""
        computed = np.fromiter(cached.num_computed_tokens, dtype=np.int32, count=len(cached.req_ids))
        self.batch.num_computed[rows] = computed
        if self.batch.counts_in_states:
            for state, count in zip(states, cached.num_computed_tokens, strict=True):
                state.num_computed_tokens = count
        tables = self.batch.block_tables
        num_groups = len(tables.tables)
        singles: list[int] = []  # those with one block a group: what a decode needs when it crosses a block border
        added: list[BlockIds] = []
        for index, blocks in enumerate(cached.new_block_ids):
            if blocks is None:
                continue
            if len(blocks) == num_groups and len(blocks[0]) == 1 and (num_groups == 1 or _singles(blocks)):
                for own, ids in zip(states[index].block_ids, blocks, strict=True):
                    own.append(ids[0])
                singles.append(index)
                added.append(blocks)
            else:
                self._merge_blocks(states[index], int(rows[index]), cached, index, step)
        if singles:
            tables.append_each(rows.take(singles), added)

    def _merge_blocks(
        self, state: CachedRequestState, row: int | None, cached: CachedRequests, index: int, step: int
    ) -> None:
        """Append new blocks, or put them in the place of the old ones, which may be somebody else's by now."""
        new, resumed = cached.new_block_ids[index], state.req_id in cached.resumed_req_ids
        if new is None and not resumed:
            return
        tables = self.batch.block_tables
        blocks = new if new is not None else ((),) * len(tables.tables)
        tables.check(blocks, step, state.req_id)
        if resumed:
            state.block_ids = own_blocks(blocks)
            return
        for own, added in zip(state.block_ids, blocks, strict=True):
            own.extend(added)
        if row is not None:
            tables.append_row(row, blocks)

    def _residents_of(self, cached: CachedRequests) -> _Residents | None:
        """Rows and states of `cached.req_ids`; None when one of them has no row or comes back with other blocks.

        While membership and order stand they are those of the step before: without that each decode step looks every
        request up twice to find what it found then. Rows of a batch that is just changing hold until `condense`, so
        they are not kept.
        """
        batch, req_ids = self.batch, cached.req_ids
        if cached.resumed_req_ids:
            return None
        steady = not batch.changed
        if steady and self._known is not None:
            epoch, known_ids, known = self._known
            if epoch is batch.epoch and known_ids == req_ids:
                return known
        try:
            rows = np.fromiter(map(batch.row_of.__getitem__, req_ids), dtype=np.intp, count=len(req_ids))
        except KeyError:
            return None
        found = rows, list(map(self.requests.__getitem__, req_ids))
        if steady:
            self._known = batch.epoch, req_ids, found
        return found


def _singles(block_ids: BlockIds) -> bool:
    """Whether each group gets one block."""
    return all(len(ids) == 1 for ids in block_ids)


def _known(requests: dict[str, CachedRequestState], req_id: str, step: int) -> CachedRequestState:
    state = requests.get(req_id)
    if state is None:
        raise UsageError(f"step {step}: request {req_id!r} is scheduled as cached, but was never announced as new")
    return state


def _refresh_history(state: CachedRequestState, cached: CachedRequests) -> None:
    """A request that was away may have got tokens meanwhile: the scheduler's history wins."""
    history = cached.all_token_ids.get(state.req_id)
    if history is not None:
        state.replace_history(history)
