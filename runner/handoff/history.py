"""Tokens in flight in the host's history: a placeholder at submit, the token itself when it has come back.

Both views of a request count a token from the moment that a step will sample it, so lengths, discard masks and block
needs are right without waiting for its value. Only the value is missing, and nobody may compute with it: input
preparation takes it from the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...workloads.step import PLACEHOLDER
from ..inputs.step_inputs import StepInputs
from ..state.input_batch import InputBatch
from ..state.request_state import CachedRequestState
from ..state.update import WorkerState
from .outputs import OutputSlot


@dataclass(frozen=True, slots=True)
class Reservation:
    """The tokens that one step will show: one for each row that its discard mask lets through.

    rows       places in the step's order, ascending; columns  where the batch kept them then
    positions  index of the token in its request's history; outputs  the same among its outputs
    states     of the requests; epoch is the batch's tuple of ids, a new one whenever membership changed
    """

    step: int
    epoch: tuple[str, ...]
    req_ids: list[str]
    rows: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]
    positions: npt.NDArray[np.int32]
    outputs: list[int]
    states: list[CachedRequestState]


def reserve(state: WorkerState, inputs: StepInputs) -> Reservation:
    """Append a placeholder to each request that will show a token."""
    batch, requests, ids = state.batch, state.requests, inputs.req_ids
    rows = np.flatnonzero(~inputs.discard)
    shown = list(ids) if rows.size == len(ids) else [ids[row] for row in rows.tolist()]
    states = list(map(requests.__getitem__, shown))
    for request in states:
        request.output_token_ids.append(PLACEHOLDER)
    columns = batch.columns_of(rows)
    batch.append_tokens(columns, PLACEHOLDER)
    positions = inputs.seq_lens[rows]  # a copy: the view is another step's by the time that the tokens are back
    outputs = (positions - batch.num_prompt[columns]).tolist()
    return Reservation(inputs.step, ids, shown, rows, columns, positions, outputs, states)


def fill(state: WorkerState, reserved: Reservation, tokens: list[int]) -> None:
    """Put the tokens, one a reserved row, into the places that were kept for them.

    A request that was preempted meanwhile has lost its place: it will sample the token again. One that has ended has no
    row any more; and another one of the same name is not it.
    """
    step = reserved.step
    for request, place, token in zip(reserved.states, reserved.outputs, tokens, strict=True):
        if request.valid_from_step <= step:
            request.output_token_ids[place] = token
            request.collected_step = step
    batch = state.batch
    if batch.req_ids is reserved.epoch and not batch.changed:
        batch.token_ids.values[reserved.columns, reserved.positions] = tokens
    else:
        _fill_moved(batch, state.requests, reserved, tokens)


class SingleTokens:
    """Histories with one token a step in flight."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    def reserve(self, inputs: StepInputs) -> Reservation:
        """See `reserve`."""
        return reserve(self._state, inputs)

    def take(self, slot: OutputSlot, reserved: Reservation) -> dict[str, tuple[int, ...]]:
        """The tokens that came back in `slot`, put into both views."""
        tokens: list[int] = slot.view[reserved.rows, 0].tolist()
        fill(self._state, reserved, tokens)
        return {req_id: (token,) for req_id, token in zip(reserved.req_ids, tokens, strict=True)}


def _fill_moved(
    batch: InputBatch, requests: dict[str, CachedRequestState], reserved: Reservation, tokens: list[int]
) -> None:
    """The rows are other ones by now: ask for each request's own."""
    row_of, values = batch.row_of, batch.token_ids.values
    for req_id, request, position, token in zip(
        reserved.req_ids, reserved.states, reserved.positions.tolist(), tokens, strict=True
    ):
        row = row_of.get(req_id)
        if row is not None and requests.get(req_id) is request and request.valid_from_step <= reserved.step:
            values[row, position] = token
