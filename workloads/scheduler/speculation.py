"""Drafts in the scheduler's books: what a step verifies, what comes back of it, and what was counted too early.

A step with d drafts counts 1 + d tokens as computed when it is scheduled, and 1 + d tokens as to come; 1 to 1 + d of
them come back. The difference, the rejected drafts, is taken off both counts then (vLLM: update_from_output).
"""

from __future__ import annotations

from ...errors import BrokenInvariant
from .state import RequestState

Drafts = tuple[int, ...]
NO_DRAFTS: Drafts = ()


def within_model_len(state: RequestState, count: int, max_model_len: int) -> int:
    """`count` tokens without the drafts behind which no token would fit any more; 0 or less is nothing to do."""
    return min(count, max_model_len - 1 - state.num_computed)


def take_drafts(state: RequestState, end: int) -> Drafts:
    """The drafts that a step up to `end` tokens verifies. The others go too: behind that step they are stale."""
    if not state.drafts:
        return NO_DRAFTS
    kept = state.drafts[: max(0, end - state.num_tokens - state.num_placeholders)]
    state.drafts = NO_DRAFTS
    return kept


def drop_drafts(state: RequestState) -> None:
    """A preempted request computes its history anew, and nothing that is in flight counts."""
    state.drafts = NO_DRAFTS
    state.num_drafts_in_flight = 0


def check_sampled(state: RequestState, num_sampled: int, drafts: Drafts, step: int) -> None:
    """Tokens come back for steps that cover their request, no more than its drafts and one. Raises BrokenInvariant."""
    if not state.num_placeholders:
        detail = f"{state.req_id} sampled with {state.num_computed} of {state.num_tokens} tokens computed"
        raise BrokenInvariant("sampled_when_covered", step, detail)
    check_accepted(state, num_sampled, drafts, step)


def check_accepted(state: RequestState, num_sampled: int, drafts: Drafts, step: int) -> None:
    """A step shows a token, and at most all of its drafts before it. Raises BrokenInvariant."""
    if not 1 <= num_sampled <= len(drafts) + 1:
        detail = f"{state.req_id} shows {num_sampled} tokens of a step that verified {len(drafts)} drafts"
        raise BrokenInvariant("accepted_within_drafts", step, detail)


def settle(state: RequestState, num_drafts: int, num_sampled: int) -> None:
    """A step that verified `num_drafts` has come back with `num_sampled` tokens: take off what it counted too early."""
    state.num_placeholders -= 1 + num_drafts
    state.num_computed -= num_drafts - (num_sampled - 1)
    state.num_drafts_in_flight -= num_drafts
