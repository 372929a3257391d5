"""Invariants of speculation: drafts stand where they are verified, only drafts are accepted, rejected ones don't count.

Expected places are made row by row here, not by the code that is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...workloads.step import PLACEHOLDER, StepDelta, StepResult
from ..inputs.step_inputs import IntArray, StepInputs
from .view import StepView, first_difference, host

Drafts = Mapping[str, tuple[int, ...]]


def drafts_fed(view: StepView, tokens: IntArray) -> IntArray:
    """`tokens` [Q] of the histories with each row's drafts in the place of its last ones: what the forward must read.

    A draft that nobody has is fed as token 0.
    """
    if not view.delta.scheduled_spec_decode_tokens:
        return tokens
    fed = tokens.copy()
    ends = np.cumsum(view.expected_scheduled)
    for row, req_id in enumerate(view.inputs.req_ids):
        own = _drafts_of(view, req_id)
        fed[ends[row] - len(own) : ends[row]] = np.maximum(np.asarray(own, dtype=np.int32), 0)
    return fed


def _drafts_of(view: StepView, req_id: str) -> tuple[int, ...]:
    """The delta's drafts; where it has placeholders those that the device proposed, if the request was in the step
    before, and else none: -1, which is no token.
    """
    own = view.delta.scheduled_spec_decode_tokens.get(req_id, ())
    known = view.proposed.get(req_id, (PLACEHOLDER,) * len(own))
    return tuple(
        proposed if draft == PLACEHOLDER else draft for draft, proposed in zip(own, known, strict=False)
    )


def verified_drafts(inputs: StepInputs) -> Drafts:
    """What the sampler has verified, by request, read off the device."""
    spec = inputs.speculation
    if spec is None:
        return {}
    table = zip(inputs.req_ids, host(spec.drafts_gpu).tolist(), strict=True)
    return {req_id: tuple(draft for draft in row if draft >= 0) for req_id, row in table}


def draft_places(view: StepView) -> str | None:
    """The sampler verifies exactly the delta's drafts, each with the logits of the token before it."""
    drafts, inputs = view.delta.scheduled_spec_decode_tokens, view.inputs
    spec = inputs.speculation
    if not drafts:
        return "drafts are verified in a step that has none" if spec is not None else None
    if spec is None:
        return f"the drafts of {next(iter(drafts))!r} are not verified"
    places: list[int] = []
    first: list[int] = []
    end, table = 0, host(spec.drafts_gpu)
    for row, req_id in enumerate(inputs.req_ids):
        own = _drafts_of(view, req_id)
        end += int(view.expected_scheduled[row])
        first.append(len(places))
        places.extend(max(end - back, 0) for back in range(len(own) + 1, 0, -1))
        if table[row].tolist() != [*own, *[PLACEHOLDER] * (table.shape[1] - len(own))]:
            return f"{req_id!r} drafted {list(own)}, but {table[row].tolist()} are verified"
    return first_difference(host(spec.first_logits_gpu), np.asarray(first), "first places of logits") or (
        first_difference(host(spec.logits_indices_gpu), np.asarray(places), "places of logits")
    )


def accepted_drafts(drafts: Drafts, result: StepResult) -> str | None:
    """What came back begins with the request's drafts, in order, and has one token behind the accepted ones.

    That token is never the next draft: a certain draft that is right was accepted, and the residual of a wrong one
    leaves it out.
    """
    for req_id, tokens in result.sampled.items():
        own = drafts.get(req_id, ())
        if len(tokens) > len(own) + 1 or any(got != want for got, want in zip(tokens[:-1], own, strict=False)):
            return f"{req_id!r} shows {list(tokens)}, which does not begin with its drafts {list(own)}"
        if tokens[-1:] == own[len(tokens) - 1 : len(tokens)]:
            return f"{req_id!r} shows {list(tokens)}, and its draft {tokens[-1]} stands for the token behind it"
    return None


@dataclass(slots=True)
class _Kept:
    """valid: positions whose KV belongs to the request's text, by the steps that came back and the sure part of those
    in flight; pending: drafts in flight, by step.
    """

    valid: int
    pending: dict[int, int]


class Rollbacks:
    """How far each request's KV is good, from deltas and results alone."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def follow(self, delta: StepDelta) -> str | None:
        """Take in a delta. A line when it counts what was rejected, or not what was accepted."""
        for req_id in delta.finished_req_ids:
            self._kept.pop(req_id, None)
        for new in delta.new_requests:
            self._kept[new.req_id] = _Kept(new.num_computed_tokens, {})
        fault = None
        for req_id, computed in zip(delta.cached.req_ids, delta.cached.num_computed_tokens, strict=True):
            kept = self._kept[req_id]
            if req_id in delta.cached.resumed_req_ids:
                self._kept[req_id] = kept = _Kept(computed, {})
            wanted = kept.valid + sum(kept.pending.values())
            if computed != wanted:
                fault = f"{req_id!r} counts {computed} tokens as computed, but {wanted} are, with all drafts in flight"
        self._schedule(delta)
        return fault

    def _schedule(self, delta: StepDelta) -> None:
        drafts = delta.scheduled_spec_decode_tokens
        for req_id, count in delta.num_scheduled_tokens.items():
            kept, own = self._kept[req_id], len(drafts.get(req_id, ()))
            kept.valid += count - own
            if own:
                kept.pending[delta.step] = own

    def saw(self, result: StepResult) -> None:
        """Take in what came back: accepted drafts are part of the text."""
        for req_id, tokens in result.sampled.items():
            kept = self._kept.get(req_id)
            if kept is not None and kept.pending.pop(result.step, 0):
                kept.valid += len(tokens) - 1
