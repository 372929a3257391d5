"""Merging a scheduler's delta into the worker's state: the first stage of the step.

The order matters: whatever changes rows happens here, before any index is built on them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ...errors import UsageError
from ...workloads.step import BlockIds, CachedRequests, NewRequest, StepDelta, StepResult
from ..probe_points import ProbePoints
from .input_batch import InputBatch
from .request_state import CachedRequestState, make_generator
from .sampling_metadata import SamplingMetadata


@dataclass(frozen=True, slots=True)
class UpdateFigures:
    """What one delta did to the batch. `batch_overlap` is the Jaccard index of this and the last step's requests,
    None when there is no step before or both are empty.
    """

    num_new: int
    num_finished: int
    num_resumed: int
    num_preempted: int
    num_moved_rows: int
    batch_overlap: float | None


@dataclass(frozen=True, slots=True)
class _Residents:
    """Where the requests of a delta live, in the delta's order. `epoch` is the batch's metadata object, which is a new
    one whenever membership changed.
    """

    epoch: SamplingMetadata
    req_ids: tuple[str, ...]
    rows: npt.NDArray[np.intp]
    states: list[CachedRequestState]


class WorkerState:
    """Both views of the requests: `requests` by id, `batch` by row. `update` keeps them in step."""

    def __init__(self, batch: InputBatch, points: ProbePoints, generator_device: torch.device) -> None:
        self.batch = batch
        self.requests: dict[str, CachedRequestState] = {}
        self._points = points
        self._generator_device = generator_device
        self._last_ids: tuple[str, ...] | None = None
        self._residents: _Residents | None = None

    def update(self, delta: StepDelta) -> UpdateFigures:
        """Merge `delta`: finished, unscheduled, new, resident and returning requests, then pack and refresh.

        Raises UsageError when the delta speaks of a request that was never announced or asks for more than fits.
        """
        batch = self.batch
        if self._points.active:
            self._points.reach("update_states", delta=delta, requests=self.requests, req_ids=batch.req_ids)
        batch.begin_step()
        for req_id in delta.finished_req_ids:
            self.requests.pop(req_id, None)
            batch.remove_request(req_id)
        self._remove_unscheduled(delta)
        arriving = [self._create(request, delta.step) for request in delta.new_requests]
        arriving += self._merge_cached(delta.cached, delta.step)
        for state in arriving:
            self._add(state)
        batch.condense()
        batch.refresh_metadata()
        if batch.num_reqs != len(delta.num_scheduled_tokens):
            stranger = min(delta.num_scheduled_tokens.keys() - batch.row_of.keys())
            raise UsageError(f"step {delta.step}: request {stranger!r} is scheduled, but neither new nor cached")
        if self._points.active:
            self._points.reach("condense", req_ids=batch.req_ids, row_of=dict(batch.row_of), moves=list(batch.moves))
        return self._figures(delta)

    def commit_tokens(self, result: StepResult) -> None:
        """Append the tokens that became visible to both views."""
        row_of, requests = self.batch.row_of, self.requests
        rows: list[int] = []
        tokens: list[int] = []
        for req_id, sampled in result.sampled.items():
            requests[req_id].output_token_ids.extend(sampled)
            row = row_of[req_id]
            for token in sampled:
                rows.append(row)
                tokens.append(token)
        if len(tokens) == len(result.sampled):
            self.batch.append_tokens(rows, tokens)
        else:
            for row, token in zip(rows, tokens, strict=True):
                self.batch.append_tokens([row], [token])

    def _remove_unscheduled(self, delta: StepDelta) -> None:
        """Take rows from requests that sit this step out; a forced resume also gives its row up and comes back.

        Their state stays: the scheduler will send differences to it later.
        """
        staying = delta.num_scheduled_tokens.keys()
        resumed = delta.cached.resumed_req_ids
        leaving = self.batch.row_of.keys() - staying
        for req_id in leaving | (self.batch.row_of.keys() & resumed) if resumed else leaving:
            self.batch.remove_request(req_id)

    def _create(self, new: NewRequest, step: int) -> CachedRequestState:
        where = f"step {step}: request {new.req_id!r}"
        if new.req_id in self.requests:
            raise UsageError(f"{where} is new, but the worker already knows it; finish it first")
        if new.prompt_token_ids.size > self.batch.token_ids.width:
            raise UsageError(
                f"{where} has a prompt of {new.prompt_token_ids.size} tokens; max_model_len is"
                f" {self.batch.token_ids.width}"
            )
        state = CachedRequestState(
            req_id=new.req_id,
            prompt_token_ids=new.prompt_token_ids,
            block_ids=array("i", single_group(new.block_ids, where)),
            num_computed_tokens=new.num_computed_tokens,
            sampling=new.sampling,
            generator=make_generator(new.sampling, self._generator_device),
        )
        self.requests[new.req_id] = state
        return state

    def _merge_cached(self, cached: CachedRequests, step: int) -> list[CachedRequestState]:
        """Apply differences to known requests; returns those that have no row and need one."""
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

    def _add(self, state: CachedRequestState) -> None:
        row = self.batch.add_request(state)
        if self._points.active:
            self._points.reach(
                "add_request",
                req_id=state.req_id,
                row=row,
                num_computed_tokens=state.num_computed_tokens,
                block_ids=state.block_ids.tolist(),
            )

    def _figures(self, delta: StepDelta) -> UpdateFigures:
        ids, before = self.batch.req_ids, self._last_ids
        self._last_ids = ids
        return UpdateFigures(
            num_new=len(delta.new_requests),
            num_finished=len(delta.finished_req_ids),
            num_resumed=len(delta.cached.resumed_req_ids),
            num_preempted=len(delta.preempted_req_ids),
            num_moved_rows=len(self.batch.moves),
            batch_overlap=None if before is None else jaccard(before, ids),
        )


def jaccard(before: tuple[str, ...], after: tuple[str, ...]) -> float | None:
    """Ids in both over ids in either; None when both are empty."""
    if before is after:  # the batch keeps its tuple while its membership stands
        return 1.0 if after else None
    old, new = set(before), set(after)
    union = len(old | new)
    return len(old & new) / union if union else None


def single_group(block_ids: BlockIds, where: str) -> tuple[int, ...]:
    """The block ids of the one KV cache group that this runner has. Raises UsageError on more."""
    if len(block_ids) != 1:
        raise UsageError(f"{where}: block ids of {len(block_ids)} KV cache groups; this runner has exactly one")
    return block_ids[0]


def _known(requests: Mapping[str, CachedRequestState], req_id: str, step: int) -> CachedRequestState:
    state = requests.get(req_id)
    if state is None:
        raise UsageError(f"step {step}: request {req_id!r} is scheduled as cached, but was never announced as new")
    return state


def _refresh_history(state: CachedRequestState, cached: CachedRequests) -> None:
    """A request that was away may have got tokens meanwhile: the scheduler's history wins."""
    history = cached.all_token_ids.get(state.req_id)
    if history is not None:
        state.replace_history(history)
