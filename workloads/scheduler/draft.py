"""A step being put together: columns now, a StepDelta at the end."""

from __future__ import annotations

from ..step import BlockIds, CachedRequests, NewRequest, StepDelta, TokenIds
from .state import RequestState


class StepDraft:
    """Collects what one step schedules, in scheduling order, and the budget that is left.

    `next_drafts` stand for those that the worker will propose in this step, where the next is scheduled before they
    come back.
    """

    __slots__ = (
        "all_token_ids",
        "budget",
        "covered",
        "drafts",
        "known",
        "new_requests",
        "next_drafts",
        "preempted",
        "resumed",
        "scheduled",
        "step",
    )

    def __init__(self, step: int, budget: int, next_drafts: tuple[int, ...] = ()) -> None:
        self.step = step
        self.budget = budget
        self.scheduled: dict[str, int] = {}
        self.new_requests: list[NewRequest] = []
        self.known: list[tuple[str, BlockIds | None, int, int]] = []  # the columns of CachedRequests, row by row
        self.resumed: list[str] = []
        self.all_token_ids: dict[str, TokenIds] = {}
        self.preempted: list[str] = []
        self.covered: list[str] = []
        self.drafts: dict[str, tuple[int, ...]] = {}
        self.next_drafts = next_drafts

    def add_known(
        self, state: RequestState, num_tokens: int, added: BlockIds, drafts: tuple[int, ...] = ()
    ) -> None:
        """A request that the worker knows; `added` blocks extend its row (or are the row, when it is resumed).

        Its last `drafts` tokens are to be verified.
        """
        req_id = state.req_id
        num_outputs = state.num_tokens + state.num_placeholders - state.num_prompt
        self.known.append((req_id, added or None, state.num_computed, num_outputs))
        if state.last_step != self.step - 1:
            self.all_token_ids[req_id] = state.history()
        if drafts:
            self.drafts[req_id] = drafts
            self._charge(state, num_tokens, len(drafts))
        else:
            self._charge(state, num_tokens)

    def add_admitted(self, state: RequestState, num_tokens: int) -> None:
        """A request that enters the batch: new the first time, resumed with its whole row afterwards."""
        if state.started:
            self.resumed.append(state.req_id)
            self.add_known(state, num_tokens, tuple(map(tuple, state.blocks)))
            return
        state.started = True
        request = state.request
        blocks = tuple(map(tuple, state.blocks))
        self.new_requests.append(
            NewRequest(
                request.req_id, state.history(), blocks, state.num_computed, request.sampling, request.prompt_embeds
            )
        )
        self._charge(state, num_tokens)

    def _charge(self, state: RequestState, num_tokens: int, num_drafts: int = 0) -> None:
        """Optimistic: what is scheduled counts as computed at once, so that the next step can be scheduled on top. A
        request that is computed to its end samples: a placeholder stands for the token until it comes back.
        """
        self.scheduled[state.req_id] = num_tokens
        self.budget -= num_tokens
        state.num_computed = computed = state.num_computed + num_tokens
        state.last_step = self.step
        state.last_count = num_tokens
        ahead = state.num_placeholders + num_drafts
        state.partial = computed < state.num_tokens + ahead
        if not state.partial:
            state.num_placeholders = ahead + 1
            if num_drafts:
                state.num_drafts_in_flight += num_drafts
            state.drafts = self.next_drafts
            self.covered.append(state.req_id)

    def finish(self, finished: frozenset[str], preempted_before: list[str]) -> StepDelta:
        """The delta. `preempted_before` were preempted since the last step, by a forced reset."""
        req_ids, new_blocks, computed, outputs = zip(*self.known, strict=True) if self.known else ((), (), (), ())
        cached = CachedRequests(
            req_ids, new_blocks, computed, outputs, frozenset(self.resumed), self.all_token_ids
        )
        return StepDelta(
            self.step,
            tuple(self.new_requests),
            cached,
            self.scheduled,
            finished,
            (*preempted_before, *self.preempted),
            self.drafts,
        )
