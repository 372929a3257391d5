"""The switch `correction`: who corrects the counts of a step that was scheduled before the last one's result was known.

With two steps in flight a step is scheduled as if all drafts of the step before were accepted. Where some were
rejected, its counts of computed tokens are too high. Either the host corrects them, which makes it wait for the step
before, or the device does (`device_correction`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from ...instrumentation.probe.api import ProbeLike
from ...workloads.step import PLACEHOLDER, StepDelta
from ..config import Correction as CorrectionSwitch
from ..handoff.pending import AsyncOutputs, Outputs
from ..state.update import WorkerState


class Correction(Protocol):
    """Sees each delta before the worker's state does."""

    def amend(self, delta: StepDelta) -> StepDelta:
        """The delta to run."""
        ...


class NoCorrection:
    """Nothing is in flight when a step is scheduled, there are no drafts, or the device corrects."""

    def amend(self, delta: StepDelta) -> StepDelta:
        """As it is."""
        return delta


class HostCorrection:
    """Waits for the step before, lowers the counts by the drafts it rejected, and fills in the drafts it proposed.

    Waiting gives up what two steps in flight gain; it is here to be compared with the correction on the device. The
    range `correct_counts` covers it.
    """

    def __init__(self, probe: ProbeLike, state: WorkerState, outputs: AsyncOutputs) -> None:
        self._corrected = probe.timed("correct_counts", HostCorrection._correct)
        self._state = state
        self._outputs = outputs

    def amend(self, delta: StepDelta) -> StepDelta:
        """The delta as a scheduler would have made it behind the step before."""
        return self._corrected(self, delta)

    def _correct(self, delta: StepDelta) -> StepDelta:
        self._outputs.collect_all()
        drafts = {
            req_id: _named(placeholders, self._outputs.drafts.get(req_id, ()))
            for req_id, placeholders in delta.scheduled_spec_decode_tokens.items()
        }
        cached = replace(delta.cached, num_computed_tokens=self._computed(delta))
        return replace(delta, cached=cached, scheduled_spec_decode_tokens=drafts)

    def _computed(self, delta: StepDelta) -> tuple[int, ...]:
        """The scheduler counts its outputs with the drafts in flight; what the worker has not got was rejected.

        A request that comes back with its whole history has nothing in flight.
        """
        cached, requests = delta.cached, self._state.requests
        lowered = []
        for req_id, computed, outputs in zip(
            cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True
        ):
            request = None if req_id in cached.all_token_ids else requests.get(req_id)
            rejected = 0 if request is None else outputs - len(request.output_token_ids)
            lowered.append(computed - rejected)
        return tuple(lowered)


def _named(placeholders: tuple[int, ...], known: tuple[int, ...]) -> tuple[int, ...]:
    """As many drafts as were scheduled; placeholders where fewer were proposed, which nothing accepts."""
    kept = known[: len(placeholders)]
    return kept + (PLACEHOLDER,) * (len(placeholders) - len(kept))


def make_correction(kind: CorrectionSwitch, probe: ProbeLike, state: WorkerState, outputs: Outputs) -> Correction:
    """The strategy for the switch `correction`; only with drafts and two steps in flight there is something to do."""
    if kind == "host" and isinstance(outputs, AsyncOutputs) and outputs.num_drafts:
        return HostCorrection(probe, state, outputs)
    return NoCorrection()


