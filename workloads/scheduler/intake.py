"""What comes back of a step: which tokens its requests take, and which requests end with them."""

from __future__ import annotations

from collections.abc import Mapping

from ..step import StepResult
from .config import SchedulerConfig
from .kv_cache import KVCache
from .speculation import NO_DRAFTS, Drafts, check_accepted, check_sampled, settle
from .state import RequestState

States = Mapping[str, RequestState]
"""Unfinished requests by id."""


class TokenIntake:
    """Appends the tokens of a result to the histories of their requests.

    Dropped is what comes too late: the request has ended meanwhile (a stop token is noticed when it comes back, and
    one more was sampled behind it), or it was preempted, and samples the token again after the resume. With
    `deliver_late` a request preempted for want of blocks takes its tokens while it waits; after a forced reset it
    does not. Cut off is what was accepted behind the request's end.

    ended   the requests that the last result ended, and how many tokens short of their limit a stop token cut them
    """

    def __init__(self, config: SchedulerConfig, kv: KVCache) -> None:
        self._kv = kv
        self._deliver_late = config.deliver_late
        self._fills_blocks = config.async_scheduling or config.num_speculative_tokens > 0
        """A block may be full but for a token in flight: its content is known when that token comes back."""
        self.ended: dict[str, int] = {}

    def take(
        self, result: StepResult, states: States, drafted: Mapping[str, Drafts]
    ) -> Mapping[str, tuple[int, ...]]:
        """Take the tokens that became visible; `drafted` is what the step verified. Returns those that were taken."""
        self.ended = {}
        cut: dict[str, tuple[int, ...]] = {}  # what was taken of the tokens, where that isn't all
        step = result.step
        for req_id, tokens in result.sampled.items():
            state = states.get(req_id)
            if state is None or step < state.valid_from_step:
                cut[req_id] = ()
                continue
            if step <= state.stale_through:
                late = self._deliver_late
                cut[req_id] = self._take_late(state, tokens, drafted.get(req_id, NO_DRAFTS), step) if late else ()
                continue
            if not drafted and state.num_placeholders and len(tokens) == 1:
                self._take_one(state, tokens[0], step)
                continue
            kept = self._take(state, tokens, drafted.get(req_id, NO_DRAFTS), step)
            if kept is not tokens:
                cut[req_id] = kept
        if not cut:
            return result.sampled
        return {req_id: kept for req_id, tokens in result.sampled.items() if (kept := cut.get(req_id, tokens))}

    def take_proposals(self, result: StepResult, states: States) -> None:
        """What the worker proposes for the next step of each request."""
        for req_id, proposed in result.drafts.items():
            state = states.get(req_id)
            if state is not None and result.step >= state.valid_from_step and result.step > state.stale_through:
                state.drafts = proposed

    def _take_one(self, state: RequestState, token: int, step: int) -> None:
        """The common case of `_take`: one token, no drafts."""
        state.num_placeholders -= 1
        place = state.num_tokens
        state.tokens[place] = token
        state.num_tokens = place = place + 1
        if place >= state.limit or (state.stops and token in state.stops):
            self.ended[state.req_id] = state.limit - place
        if self._fills_blocks and place >= state.num_cached_tokens + self._kv.grain:
            self._kv.remember(state, state.settled(step))

    def _take(self, state: RequestState, tokens: tuple[int, ...], drafts: Drafts, step: int) -> tuple[int, ...]:
        """Append the tokens of one request, up to its end; returns those that were taken, the same tuple if all."""
        check_sampled(state, len(tokens), drafts, step)
        settle(state, len(drafts), len(tokens))
        taken = self._append(state, tokens)
        if self._fills_blocks and state.num_tokens >= state.num_cached_tokens + self._kv.grain:
            # drafts behind the request's end do not count
            self._kv.remember(state, state.settled(step) - (len(tokens) - len(taken)))
        return taken

    def _take_late(self, state: RequestState, tokens: tuple[int, ...], drafts: Drafts, step: int) -> tuple[int, ...]:
        """Tokens that were in flight when their request was preempted: they are its next ones, and no count knows them
        any more.
        """
        check_accepted(state, len(tokens), drafts, step)
        return self._append(state, tokens)

    def _append(self, state: RequestState, tokens: tuple[int, ...]) -> tuple[int, ...]:
        before = state.num_tokens
        if state.append(tokens):
            self.ended[state.req_id] = state.limit - state.num_tokens
        taken = state.num_tokens - before
        return tokens if taken == len(tokens) else tokens[:taken]
