"""Tokens between the device and the host: what a submitted step has sampled, and what comes back of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ...workloads.step import StepDelta, StepResult
from ..handoff.outputs import NOTHING, OutputSlot
from ..inputs.step_inputs import IntArray, StepInputs
from .truth import IN_FLIGHT, RequestTruth, Truth
from .view import host


def covered(truth: Truth, delta: StepDelta) -> list[str]:
    """The requests that must show a token: the step ends where their known tokens end, or behind."""
    known = truth.requests
    return [
        req_id for req_id, count in delta.num_scheduled_tokens.items()
        if count and known[req_id].num_computed + count >= known[req_id].num_tokens
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flight:
    """The step submitted last: rows by request, its tokens on the device [rows, width], how many drafts it verified in
    each row, and the drafts that were proposed behind it [rows, k] if that was on the device.
    """

    row_of: dict[str, int]
    sampled: torch.Tensor
    verified: IntArray
    drafts: torch.Tensor | None

    @classmethod
    def of(cls, inputs: StepInputs, slot: OutputSlot, verified: IntArray) -> Flight:
        """The flight of a step that was just enqueued."""
        rows = inputs.num_reqs
        drafts = None if slot.drafts is None else slot.drafts[:rows]
        return cls({req_id: row for row, req_id in enumerate(inputs.req_ids)}, slot.sampled[:rows], verified, drafts)

    def tokens(self) -> IntArray:
        """[rows, width] on the host; waits for the device."""
        tokens: IntArray = np.array(host(self.sampled))
        return tokens

    def proposed(self, req_ids: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """The drafts of these requests that only the device has."""
        if self.drafts is None:
            return {}
        table = host(self.drafts).tolist()
        return {req_id: tuple(table[self.row_of[req_id]]) for req_id in req_ids}


def tokens_in_flight(
    flight: Flight | None, requests: Iterable[tuple[str, RequestTruth]]
) -> dict[str, tuple[int, int]]:
    """By request the last token that only the device has, read from the step before, and how many drafts were rejected
    in front of it. A request that was not in that step has none: whoever takes one for it takes another's.
    """
    missing = [req_id for req_id, truth in requests if truth.outputs and truth.outputs[-1] == IN_FLIGHT]
    if flight is None or not missing:
        return {}
    tokens, found = flight.tokens(), {}
    for req_id in missing:
        row = flight.row_of.get(req_id)
        if row is not None:
            own = tokens[row][tokens[row] != NOTHING]
            found[req_id] = int(own[-1]), int(flight.verified[row]) + 1 - own.size
    return found


@dataclass(frozen=True, slots=True)
class Expected:
    """What a step that was looked at must bring back: the requests that show a token, the tokens by its rows, and the
    drafts that it verified.
    """

    kept: frozenset[str]
    row_of: dict[str, int]
    tokens: IntArray
    drafts: Mapping[str, tuple[int, ...]]


def token_return(expected: Expected, result: StepResult) -> str | None:
    """The host got what this step sampled for the request: not another step's tokens, nor another row's."""
    for req_id, tokens in result.sampled.items():
        sampled = expected.tokens[expected.row_of[req_id]].tolist()[: len(tokens)]
        if list(tokens) != sampled:
            return f"{req_id!r} sampled {sampled} on the device, but {list(tokens)} came back"
    return None
