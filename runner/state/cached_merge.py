"""Differences of known requests: the middle of a delta's merge, and nearly all of it in a steady batch."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ...workloads.step import BlockIds, CachedRequests
from .input_batch import InputBatch
from .request_state import CachedRequestState
from .sampling_metadata import SamplingMetadata


@dataclass(frozen=True, slots=True)
class _Residents:
    """Where the requests of a delta live, in the delta's order. `epoch` is the batch's metadata object, which is a new
    one whenever membership changed.
    """

    epoch: SamplingMetadata
    req_ids: tuple[str, ...]
    rows: npt.NDArray[np.intp]
    states: list[CachedRequestState]


class CachedMerge:
    """Applies `CachedRequests` to both views of the requests."""

    def __init__(self, batch: InputBatch, requests: dict[str, CachedRequestState]) -> None:
        self.batch = batch
        self.requests = requests
        self._residents: _Residents | None = None

    def merge(self, cached: CachedRequests, step: int) -> list[CachedRequestState]:
        """Apply the differences; returns the requests that have no row and need one.

        Raises UsageError for a request that was never announced, or for blocks of more than one cache group.
        """
        residents = self._steady_residents(cached)
        if residents is not None:
            self._merge_residents(cached, residents, step)
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

    def _merge_residents(self, cached: CachedRequests, residents: _Residents, step: int) -> None:
        """The common step: every request has its row, most only count on."""
        self.batch.num_computed[residents.rows] = cached.num_computed_tokens
        for state, computed in zip(residents.states, cached.num_computed_tokens, strict=True):
            state.num_computed_tokens = computed
        singles: list[int] = []
        for index, blocks in enumerate(cached.new_block_ids):
            if blocks is None:
                continue
            if len(blocks) == 1 and len(blocks[0]) == 1:
                singles.append(index)
            else:
                self._merge_blocks(residents.states[index], int(residents.rows[index]), cached, index, step)
        if singles:
            self._append_singles(cached, residents, singles)

    def _append_singles(self, cached: CachedRequests, residents: _Residents, indices: list[int]) -> None:
        """One block each: what a decode needs when it crosses a block border."""
        block_ids = [blocks[0][0] for blocks in map(cached.new_block_ids.__getitem__, indices) if blocks is not None]
        for index, block_id in zip(indices, block_ids, strict=True):
            residents.states[index].block_ids.append(block_id)
        self.batch.block_table.append_each(residents.rows[indices], block_ids)

    def _merge_blocks(
        self, state: CachedRequestState, row: int | None, cached: CachedRequests, index: int, step: int
    ) -> None:
        """Append new blocks, or put them in the place of the old ones, which may be somebody else's by now."""
        new, resumed = cached.new_block_ids[index], state.req_id in cached.resumed_req_ids
        if new is None and not resumed:
            return
        blocks = single_group(new or ((),), f"step {step}: request {state.req_id!r}")
        if resumed:
            state.block_ids = array("i", blocks)
            return
        state.block_ids.extend(blocks)
        if row is not None:
            self.batch.block_table.append_row(row, blocks)

    def _steady_residents(self, cached: CachedRequests) -> _Residents | None:
        """Rows and states of `cached.req_ids` from the step before; None when membership or order changed.

        Without this each decode step looks every request up twice to find what it found in the step before.
        """
        batch, known = self.batch, self._residents
        if batch.changed or cached.resumed_req_ids:
            return None
        if known is not None and known.epoch is batch.sampling and known.req_ids == cached.req_ids:
            return known
        if not all(req_id in batch.row_of for req_id in cached.req_ids):
            return None
        self._residents = _Residents(
            epoch=batch.sampling,
            req_ids=cached.req_ids,
            rows=np.asarray([batch.row_of[req_id] for req_id in cached.req_ids], dtype=np.intp),
            states=[self.requests[req_id] for req_id in cached.req_ids],
        )
        return self._residents


def single_group(block_ids: BlockIds, where: str) -> tuple[int, ...]:
    """The block ids of the one KV cache group that this runner has. Raises UsageError on more."""
    if len(block_ids) != 1:
        raise UsageError(f"{where}: block ids of {len(block_ids)} KV cache groups; this runner has exactly one")
    return block_ids[0]


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
