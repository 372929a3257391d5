"""Tokens between the device and the host: what a submitted step has sampled, and what comes back of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ...workloads.step import StepDelta, StepResult
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
    """The step submitted last: rows by request, and its tokens on the device [rows, width]."""

    row_of: dict[str, int]
    sampled: torch.Tensor

    @classmethod
    def of(cls, inputs: StepInputs, sampled: torch.Tensor) -> Flight:
        """The flight of a step that was just enqueued."""
        return cls({req_id: row for row, req_id in enumerate(inputs.req_ids)}, sampled[: inputs.num_reqs])

    def tokens(self) -> IntArray:
        """[rows, width] on the host; waits for the device."""
        tokens: IntArray = np.array(host(self.sampled))
        return tokens


def tokens_in_flight(
    flight: Flight | None, requests: Iterable[tuple[str, RequestTruth]]
) -> dict[str, int]:
    """By request the token that only the device has, read from the step before. A request that was not in it has none:
    whoever takes one for it takes another's.
    """
    missing = [req_id for req_id, truth in requests if truth.outputs and truth.outputs[-1] == IN_FLIGHT]
    if flight is None or not missing:
        return {}
    tokens = flight.tokens()[:, 0].tolist()
    return {req_id: tokens[flight.row_of[req_id]] for req_id in missing if req_id in flight.row_of}


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
