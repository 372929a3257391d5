"""Token histories while steps with drafts are in flight: each such step may show several tokens of a request.

At submit a run of placeholders is appended to the request's history: one for each draft that may be accepted, and one
more. When the step's tokens come back they replace the first placeholders, and those of rejected drafts are removed;
placeholders of later steps move up. Behind a step's first placeholder there are only placeholders, so removing some of
them changes lengths and nothing else. Both views of a request are kept alike: its state and its row in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...workloads.step import PLACEHOLDER
from ..handoff.outputs import OutputSlot, tokens_of
from ..inputs.step_inputs import StepInputs
from ..state.request_state import CachedRequestState
from ..state.update import WorkerState


@dataclass(frozen=True, slots=True)
class RunReservation:
    """The placeholders of one step.

    rows    the rows that will show tokens, as places in the step's order, which has num_rows
    counts  placeholders of each of these rows: 1 + its drafts, the most tokens that can come back
    """

    step: int
    num_rows: int
    req_ids: list[str]
    rows: npt.NDArray[np.intp]
    states: list[CachedRequestState]
    counts: list[int]


class TokenRuns:
    """Histories with runs of tokens in flight."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    def reserve(self, inputs: StepInputs) -> RunReservation:
        """Append placeholders to each request that will show tokens."""
        batch, requests, ids = self._state.batch, self._state.requests, inputs.req_ids
        rows = np.flatnonzero(~inputs.discard)
        spec = inputs.speculation
        counts = np.ones(rows.size, np.int32) if spec is None else spec.expansion.num_draft_tokens[rows] + 1
        shown = [ids[row] for row in rows.tolist()]
        states = [requests[req_id] for req_id in shown]
        for request, count in zip(states, counts.tolist(), strict=True):
            request.output_token_ids.extend((PLACEHOLDER,) * count)
        columns = np.repeat(batch.columns_of(rows), counts).tolist()
        batch.append_runs(columns, [PLACEHOLDER] * len(columns))
        return RunReservation(inputs.step, len(ids), shown, rows, states, counts.tolist())

    def take(self, slot: OutputSlot, reserved: RunReservation) -> dict[str, tuple[int, ...]]:
        """The tokens that came back in `slot`, put into both views. Rejected drafts' places leave.

        A request that was preempted meanwhile has lost its places; one that has ended has no row any more.
        """
        tokens = tokens_of(slot, reserved.num_rows)
        sampled = {req_id: tokens[row] for req_id, row in zip(reserved.req_ids, reserved.rows.tolist(), strict=True)}
        for request, count in zip(reserved.states, reserved.counts, strict=True):
            if request.valid_from_step <= reserved.step:
                self._settle(request, sampled[request.req_id], count, reserved.step)
        return sampled

    def _settle(self, request: CachedRequestState, tokens: tuple[int, ...], count: int, step: int) -> None:
        outputs, rejected = request.output_token_ids, count - len(tokens)
        first = len(outputs)
        while first and outputs[first - 1] == PLACEHOLDER:
            first -= 1
        for place, token in enumerate(tokens, start=first):
            outputs[place] = token
        if rejected:
            del outputs[-rejected:]
        request.collected_step = step
        batch = self._state.batch
        row = batch.row_of.get(request.req_id)
        if row is not None and self._state.requests.get(request.req_id) is request:
            start = request.num_prompt_tokens + first
            batch.token_ids.values[row, start : start + len(tokens)] = tokens
            if rejected:
                batch.token_ids.shorten(row, rejected)
