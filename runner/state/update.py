"""Merging a scheduler's delta into the worker's state: the first stage of the step.

The order matters: whatever changes rows happens here, before any index is built on them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import UsageError
from ...workloads.step import CachedRequests, NewRequest, StepDelta, StepResult
from ..probe_points import ProbePoints
from .cached_merge import CachedMerge
from .input_batch import InputBatch
from .reorder import AsTheyAre, RowOrder
from .request_state import CachedRequestState, make_generator, own_blocks


class UpdateFigures(NamedTuple):
    """What one delta did to the batch; `req_ids` are those of this step and of the last one, None before the first.
    """

    num_new: int
    num_finished: int
    num_resumed: int
    num_preempted: int
    num_moved_rows: int
    req_ids: tuple[tuple[str, ...], tuple[str, ...] | None]

    @property
    def batch_overlap(self) -> float | None:
        """The Jaccard index of this and the last step's requests, computed when somebody asks: not while the device
        waits. None when there is no step before or both are empty.
        """
        ids, before = self.req_ids
        return None if before is None else jaccard(before, ids)


class WorkerState:
    """Both views of the requests: `requests` by id, `batch` by row. `update` keeps them in step."""

    takes_embeds = False
    """Whether requests may bring embeddings of their prompts."""

    def __init__(self, batch: InputBatch, points: ProbePoints, order: RowOrder | None = None) -> None:
        self.batch = batch
        self.requests: dict[str, CachedRequestState] = {}
        self._points = points
        self._order = order or AsTheyAre()
        self._last_ids: tuple[str, ...] | None = None
        self._cached = CachedMerge(batch, self.requests)

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
        self._drop_in_flight(delta)
        self._remove_unscheduled(delta)
        arriving = [self._create(request, delta.step) for request in delta.new_requests]
        arriving += self._merge_cached(delta.cached, delta.step)
        for state in arriving:
            self._add(state)
        batch.settle(delta.num_scheduled_tokens)
        self._order.apply(batch, delta)
        batch.pass_windows()
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
            self.batch.append_runs(rows, tokens)

    def _drop_in_flight(self, delta: StepDelta) -> None:
        """Tokens in flight of preempted requests count for nothing; the scheduler will have them sampled again."""
        if not delta.preempted_req_ids and not delta.cached.resumed_req_ids:
            return
        for req_id in {*delta.preempted_req_ids, *delta.cached.resumed_req_ids}:
            state = self.requests.get(req_id)
            if state is not None:
                state.drop_in_flight(delta.step)

    def _remove_unscheduled(self, delta: StepDelta) -> None:
        """Take rows from requests that sit this step out, where the batch wants that, and from those that lost their
        blocks; a forced resume gives its row up as well, and comes back.

        Their state stays: the scheduler will send differences to it later.
        """
        resumed, row_of, scheduled = delta.cached.resumed_req_ids, self.batch.row_of, delta.num_scheduled_tokens
        leaving: set[str] = set()
        if self.batch.leaves_when_unscheduled and not row_of.keys() <= scheduled.keys():
            leaving = row_of.keys() - scheduled.keys()
        if resumed or delta.preempted_req_ids:
            leaving |= row_of.keys() & {*resumed, *delta.preempted_req_ids}
        for req_id in leaving:
            self.batch.remove_request(req_id)

    def _create(self, new: NewRequest, step: int) -> CachedRequestState:
        req_id, longest = new.req_id, self.batch.token_ids.width
        if req_id in self.requests:
            raise UsageError(
                f"step {step}: request {req_id!r} is new, but the worker already knows it; finish it first"
            )
        if new.prompt_token_ids.size > longest:
            raise UsageError(
                f"step {step}: request {req_id!r} has a prompt of {new.prompt_token_ids.size} tokens; max_model_len is"
                f" {longest}"
            )
        if new.prompt_embeds is not None and not self.takes_embeds:
            raise UsageError(
                f"step {step}: request {req_id!r} brings embeddings, and prompt_embeds is off; use sparse, or"
                " dense_table"
            )
        self.batch.block_tables.check(new.block_ids, step, req_id)
        state = CachedRequestState(
            req_id=req_id,
            prompt_token_ids=new.prompt_token_ids,
            block_ids=own_blocks(new.block_ids),
            num_computed_tokens=new.num_computed_tokens,
            sampling=new.sampling,
            generator=make_generator(new.sampling),
        )
        self.requests[req_id] = state
        return state

    def _merge_cached(self, cached: CachedRequests, step: int) -> list[CachedRequestState]:
        """Apply differences to known requests; returns those that have no row and need one."""
        return self._cached.merge(cached, step)

    def _add(self, state: CachedRequestState) -> None:
        row = self.batch.add_request(state)
        if self._points.active:
            self._points.reach(
                "add_request",
                req_id=state.req_id,
                row=row,
                num_computed_tokens=state.num_computed_tokens,
                block_ids=shown_blocks(state.block_ids),
            )

    def _figures(self, delta: StepDelta) -> UpdateFigures:
        ids, before = self.batch.req_ids, self._last_ids
        self._last_ids = ids
        return UpdateFigures(
            len(delta.new_requests), len(delta.finished_req_ids), len(delta.cached.resumed_req_ids),
            len(delta.preempted_req_ids), len(self.batch.moves), (ids, before),
        )  # fmt: skip


def shown_blocks(block_ids: Sequence[array[int]]) -> list[int] | list[list[int]]:
    """For observers: the ids, group by group where there are several groups."""
    lists = [ids.tolist() for ids in block_ids]
    return lists[0] if len(lists) == 1 else lists


def jaccard(before: tuple[str, ...], after: tuple[str, ...]) -> float | None:
    """Ids in both over ids in either; None when both are empty."""
    if before is after:  # the batch keeps its tuple while its membership stands
        return 1.0 if after else None
    shared = len(set(before).intersection(after))  # ids of a batch are distinct
    union = len(before) + len(after) - shared
    return shared / union if union else None
