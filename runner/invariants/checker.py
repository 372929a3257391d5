"""Runs the named checks on a step and stops at the first that is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...errors import BrokenInvariant, UsageError
from ...workloads.step import StepDelta, StepResult
from ..attention.metadata import CommonAttentionMetadata
from ..config import CheckMode
from ..handoff.outputs import OutputSlot
from ..inputs.step_inputs import StepInputs
from ..kv_groups import KVGroup
from ..state.update import WorkerState
from .discard_checks import discard, discarded_result
from .flat_checks import positions, query_boundaries, seq_lens_capacity, token_total
from .flight import Expected, Flight, covered, token_return, tokens_in_flight
from .kv_stamps import KVStamps
from .row_checks import row_bijection, row_ownership
from .slot_checks import slot_ownership
from .speculation_checks import Rollbacks, accepted_drafts, draft_places, verified_drafts
from .truth import Truth
from .view import StepView

Check = Callable[[StepView], str | None]

CHECKS: dict[str, Check] = {
    "row_bijection": row_bijection,
    "row_ownership": row_ownership,
    "token_total": token_total,
    "query_boundaries": query_boundaries,
    "positions": positions,
    "seq_lens_capacity": seq_lens_capacity,
    "slot_ownership": slot_ownership,
    "discard": discard,
}
"""The article's eight invariants in its order; each may rely on those before it."""

SPECULATION_CHECKS: dict[str, Check] = {"draft_places": draft_places}
"""For steps with drafts, and for those that must not have any."""

SAMPLE_EVERY = 16
"""`sample` checks one step in this many, the first included."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """How often each invariant was checked and held. A broken one ends the run, so it is not counted here.

    kv_reads  KV cells that were read through a block table and carried the right stamp; None where stamps are off
    """

    steps_seen: int
    steps_checked: int
    held: Mapping[str, int]
    kv_reads: int | None = None


class InvariantChecks(Protocol):
    """What a runner calls, outside its phases. Results may come back after later steps were submitted."""

    def after_preprocess(
        self, delta: StepDelta, state: WorkerState, inputs: StepInputs | None, common: CommonAttentionMetadata | None
    ) -> None:
        """Check a prepared step; `inputs` is None for a step without tokens. Raises BrokenInvariant."""
        ...

    def submitted(self, inputs: StepInputs, slot: OutputSlot) -> None:
        """The step was enqueued; its tokens will be in `slot` on the device."""
        ...

    def after_sample(self, result: StepResult) -> None:
        """Check what became visible, when it came back. Raises BrokenInvariant."""
        ...

    def report(self) -> CheckReport:
        """The counts so far."""
        ...


class NoChecks:
    """`--check off`."""

    def after_preprocess(
        self, delta: StepDelta, state: WorkerState, inputs: StepInputs | None, common: CommonAttentionMetadata | None
    ) -> None:
        """Nothing."""

    def submitted(self, inputs: StepInputs, slot: OutputSlot) -> None:
        """Nothing."""

    def after_sample(self, result: StepResult) -> None:
        """Nothing."""

    def report(self) -> CheckReport:
        """Nothing was checked."""
        return CheckReport(0, 0, {})


class Checker:
    """`--check sample` and `--check every`. `paused` is the device's: checking is not the engine's work."""

    def __init__(
        self, every: int, groups: Sequence[KVGroup], paused: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._every = every
        self._groups = tuple(groups)
        self._paused = paused
        self._truth = Truth()
        self._rollbacks = Rollbacks()
        self._delta = StepDelta(-1)
        self._due = False
        self._flight: Flight | None = None
        self._expected: dict[int, Expected] = {}  # of the checked steps that were not collected yet
        self._steps_seen = 0
        self._steps_checked = 0
        self._held = dict.fromkeys(CHECKS, 0)
        self._stamps = KVStamps(groups) if every == 1 else None  # a step that nobody looked at leaves no stamps

    def after_preprocess(
        self, delta: StepDelta, state: WorkerState, inputs: StepInputs | None, common: CommonAttentionMetadata | None
    ) -> None:
        """Take the delta in; on a step that is due, run all checks in order."""
        with self._paused():
            self._truth.follow(delta)
            if self._stamps is not None:
                self._stamps.follow(delta)
            rolled_back = self._rollbacks.follow(delta)
            self._delta, self._due = delta, self._steps_seen % self._every == 0
            self._steps_seen += 1
            if self._due and inputs is not None:
                view = self._look(delta, state, inputs, common)
                self._steps_checked += 1
                self._demand("rollback", rolled_back, delta.step)
                for name, check in (CHECKS | SPECULATION_CHECKS).items():
                    self._demand(name, check(view), delta.step)
                    if name in CHECKS or inputs.speculation is not None:
                        self._held[name] = self._held.get(name, 0) + 1
                if self._stamps is not None:
                    self._demand("kv_stamps", self._stamps.check(view), delta.step)

    def submitted(self, inputs: StepInputs, slot: OutputSlot) -> None:
        """Note who samples; of a due step also what, before a later step can write there."""
        with self._paused():
            kept = covered(self._truth, self._delta)
            self._truth.submitted(self._delta, kept)
            drafts = self._delta.scheduled_spec_decode_tokens
            verified = np.asarray([len(drafts.get(req_id, ())) for req_id in inputs.req_ids], dtype=np.int32)
            self._flight = flight = Flight.of(inputs, slot, verified)
            if self._due:
                self._expected[inputs.step] = Expected(
                    frozenset(kept), flight.row_of, flight.tokens(), verified_drafts(inputs)
                )

    def after_sample(self, result: StepResult) -> None:
        """Check the result of a due step, then take it in."""
        with self._paused():
            expected = self._expected.pop(result.step, None)
            if expected is not None:
                self._demand("discard", discarded_result(expected.kept, result), result.step)
                self._demand("token_return", token_return(expected, result), result.step)
                self._demand("accepted_drafts", accepted_drafts(expected.drafts, result), result.step)
            self._truth.saw(result)
            self._rollbacks.saw(result)

    def report(self) -> CheckReport:
        """The counts so far."""
        reads = None if self._stamps is None else self._stamps.reads
        return CheckReport(self._steps_seen, self._steps_checked, dict(self._held), reads)

    def _look(
        self, delta: StepDelta, state: WorkerState, inputs: StepInputs, common: CommonAttentionMetadata | None
    ) -> StepView:
        known, scheduled = self._truth.requests, delta.num_scheduled_tokens
        for req_id in inputs.req_ids:
            if req_id not in known or req_id not in scheduled:
                self._demand("row_bijection", f"{req_id!r} has a row, but is not scheduled", delta.step)
        truths = tuple(known[req_id] for req_id in inputs.req_ids)
        counts = np.asarray([scheduled[req_id] for req_id in inputs.req_ids], dtype=np.int32)
        computed = np.asarray([truth.num_computed for truth in truths], dtype=np.int32)
        rows = np.repeat(np.arange(counts.size), counts)
        offsets = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        flown = tokens_in_flight(self._flight, zip(inputs.req_ids, truths, strict=True))
        return StepView(
            delta=delta,
            requests=state.requests,
            batch=state.batch,
            inputs=inputs,
            common=common,
            truths=truths,
            in_flight={req_id: token for req_id, (token, _) in flown.items()},
            expected_scheduled=counts,
            expected_computed=computed,
            expected_rows=rows,
            expected_positions=computed[rows].astype(np.int64) + offsets,
            rejected=np.asarray([flown.get(req_id, (0, 0))[1] for req_id in inputs.req_ids], dtype=np.int32),
            proposed=self._flight.proposed(flown) if self._flight is not None else {},
            groups=self._groups,
        )

    def _demand(self, name: str, detail: str | None, step: int) -> None:
        if detail is not None:
            raise BrokenInvariant(name, step, detail)


def make_checker(
    mode: CheckMode, groups: Sequence[KVGroup], paused: Callable[[], AbstractContextManager[None]]
) -> InvariantChecks:
    """The checks for the switch `check`."""
    if mode == "off":
        return NoChecks()
    if mode not in ("sample", "every"):
        raise UsageError(f"check: unknown value {mode!r}; known are off, sample, every")
    return Checker(1 if mode == "every" else SAMPLE_EVERY, groups, paused)
