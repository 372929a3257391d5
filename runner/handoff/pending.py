"""Steps in flight: what `ModelRunner.submit` hands out, and how a step's tokens come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...instrumentation.probe.api import LateStep, ProbeLike, StepScope
from ...workloads.step import StepResult
from ..devices.base import Device
from ..inputs.step_inputs import StepInputs
from ..speculation.drafter import Drafter, Drafts
from ..speculation.runs import TokenRuns
from ..state.update import WorkerState
from .history import SingleTokens
from .outputs import OutputSlot, OutputStreamRoad, ReturnRoad, tokens_of
from .plan import PreviousStep
from .strategy import Handoff

Checked = Callable[[StepResult], None]
"""Looks at a result before the caller gets it; raises BrokenInvariant."""


class PendingStep:
    """A submitted step. `result` waits for its tokens and returns them; asked again, it returns the same."""

    def __init__(self, step: int, finish: Callable[[], StepResult]) -> None:
        self.step = step
        self._finish = finish
        self._result: StepResult | None = None

    def result(self) -> StepResult:
        """The tokens that became visible. Raises BrokenInvariant when a check of what came back fails."""
        if self._result is None:
            self._result = self._finish()
        return self._result


class Outputs(Protocol):
    """The way of a step's tokens from the device to the caller."""

    def send(self, slot: OutputSlot, inputs: StepInputs, step: StepScope) -> PendingStep:
        """Enqueue the copy to the host; the last thing of the phase `sample`."""
        ...


class SyncOutputs:
    """Waits for the tokens within the step: the only host wait of the phase. Range: copy_tokens, and the drafter's."""

    def __init__(
        self, device: Device, probe: ProbeLike, state: WorkerState, checked: Checked, drafter: Drafter
    ) -> None:
        self._device, self._state, self._checked, self._drafter = device, state, checked, drafter
        self._bring = probe.timed("copy_tokens", SyncOutputs._copy_and_wait)
        self._road = ReturnRoad(device)

    def send(self, slot: OutputSlot, inputs: StepInputs, step: StepScope) -> PendingStep:
        """Copy, wait, take the tokens in, propose what comes next."""
        tokens = self._bring(self, slot, inputs.num_reqs)
        slot.step = None
        visible = zip(inputs.req_ids, tokens, inputs.discard.tolist(), strict=True)
        sampled = {req_id: row for req_id, row, hide in visible if not hide}
        if inputs.speculation is not None:
            step.note(accepted_tokens=accepted_tokens(sampled))
        self._state.commit_tokens(StepResult(inputs.step, sampled))
        result = StepResult(inputs.step, sampled, self._drafter.propose(self._state, sampled))

        def finish() -> StepResult:
            self._checked(result)
            return result

        return PendingStep(inputs.step, finish)

    def _copy_and_wait(self, slot: OutputSlot, rows: int) -> list[tuple[int, ...]]:
        self._road.send(slot, rows)
        assert slot.event is not None
        self._device.host_wait(slot.event, "tokens")
        return tokens_of(slot, rows)


class Reserved(Protocol):
    """What a history keeps free for one step's tokens."""

    step: int


class TokensInFlight(Protocol):
    """Places for tokens in the requests' histories, from the submission of a step to its collection."""

    def reserve(self, inputs: StepInputs) -> Any:
        """Keep places for what the step will show; what is returned is `Reserved`, and goes to `take`."""
        ...

    def take(self, slot: OutputSlot, reserved: Any) -> dict[str, tuple[int, ...]]:
        """Fill them from the slot's copy on the host; the tokens by request."""
        ...


def accepted_tokens(sampled: Mapping[str, tuple[int, ...]]) -> int:
    """Drafts among a step's tokens: each request has one token behind those that were accepted."""
    return sum(map(len, sampled.values())) - len(sampled)


@dataclass(frozen=True, slots=True)
class _Flight:
    """`scope` is the step's own, where it verifies drafts: how many were accepted is known when they are back."""

    slot: OutputSlot
    reserved: Reserved
    late: LateStep
    scope: StepScope | None


class AsyncOutputs:
    """Lets the step go and waits when the caller asks. Ranges: copy_tokens in the step, collect_tokens at the wait.

    Steps are collected in the order of their submission: asking for a later one first collects those before it.
    `drafts` are what the drafter proposed behind the step collected last.
    """

    def __init__(
        self, device: Device, probe: ProbeLike, state: WorkerState, checked: Checked, handoff: Handoff,
        drafter: Drafter,
    ) -> None:  # fmt: skip
        self._device, self._state, self._checked, self._handoff = device, state, checked, handoff
        self._drafter = drafter
        self.num_drafts = drafter.num_drafts
        self._history: TokensInFlight = TokenRuns(state) if drafter.num_drafts else SingleTokens(state)
        self.drafts: Drafts = {}
        self._bring = probe.timed("copy_tokens", OutputStreamRoad(device).send)
        self._wait = probe.timed("collect_tokens", device.host_wait)
        self._flights: deque[_Flight] = deque()
        self._results: dict[int, StepResult] = {}  # collected, not asked for yet

    def send(self, slot: OutputSlot, inputs: StepInputs, step: StepScope) -> PendingStep:
        """Copy on a stream of its own, and keep a place for each token in its request's history."""
        self._bring(slot, inputs.num_reqs)
        number = inputs.step
        scope = step if inputs.speculation is not None else None
        self._flights.append(_Flight(slot, self._history.reserve(inputs), step.late(), scope))
        shown: np.ndarray[tuple[int], np.dtype[np.bool_]] = ~inputs.discard
        previous = PreviousStep(number, inputs.req_ids, slot, shown)
        self._handoff.submitted(previous, lambda: self._collect_to(number))
        return PendingStep(number, lambda: self._take(number))

    def collect_all(self) -> None:
        """Wait for every step in flight; their results stay for who asks."""
        while self._flights:
            self._collect(self._flights.popleft())

    def _take(self, step: int) -> StepResult:
        self._collect_to(step)
        return self._results.pop(step)

    def _collect_to(self, step: int) -> None:
        while self._flights and self._flights[0].reserved.step <= step:
            self._collect(self._flights.popleft())

    def _collect(self, flight: _Flight) -> None:
        slot, reserved = flight.slot, flight.reserved
        assert slot.event is not None
        with flight.late:
            self._wait(slot.event, "tokens")
            sampled = self._history.take(slot, reserved)
            slot.step = None
            if flight.scope is not None:
                flight.scope.note(accepted_tokens=accepted_tokens(sampled))
            result = StepResult(reserved.step, sampled)
            self.drafts = self._drafter.propose(self._state, sampled)
        self._checked(result)
        self._results[reserved.step] = result


def make_outputs(
    device: Device, probe: ProbeLike, state: WorkerState, checked: Checked, handoff: Handoff, drafter: Drafter
) -> Outputs:
    """The outputs that go with a hand-off."""
    if handoff.depth == 1:
        return SyncOutputs(device, probe, state, checked, drafter)
    return AsyncOutputs(device, probe, state, checked, handoff, drafter)
