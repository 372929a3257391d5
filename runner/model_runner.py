"""The model runner: the transaction that turns one scheduler's delta into one forward and the tokens that it shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..errors import UsageError
from ..instrumentation.probe.api import ProbeLike, StepScope
from ..instrumentation.probe.ledger import Ledger
from ..workloads.step import StepDelta, StepResult
from .config import CommitOrder, RunnerConfig
from .devices.base import Device
from .handoff.outputs import OutputSlot
from .handoff.pending import PendingStep, make_outputs
from .inputs.commit_order import make_commit
from .inputs.step_inputs import BoolArray, StepInputs
from .invariants.checker import InvariantChecks, make_checker
from .kv_groups import resolve_groups
from .plan import ExecutionPlan
from .probe_points import Observer, ProbePoints
from .speculation.correction import make_correction
from .speculation.synthetic import Continuations
from .state.update import UpdateFigures
from .validity import validate
from .wiring import Site, Stages, build_stages

_Ready = tuple[StepInputs, ExecutionPlan, Sequence[object]]
"""Inputs, plan and attention metadata: what a forward needs."""


class ModelRunner:
    """One runner on one device. Each delta is submitted once, in order; its tokens are collected from what that gives.
    With an asynchronous hand-off of tokens the next step may be submitted before that, with `sync` it may as well, but
    the tokens are back before `submit` returns.

    After an exception the runner's state is that of a step cut short; it must not be used again.
    """

    def __init__(
        self, stages: Stages, device: Device, probe: ProbeLike, checks: InvariantChecks, points: ProbePoints
    ) -> None:
        self.device = device
        self.probe = probe
        self.checks = checks
        self.points = points
        self.state = stages.state
        self.inputs = stages.inputs
        self.dispatcher = stages.dispatcher
        self.metadata = stages.metadata
        self._preprocess = probe.timed_phase("preprocess", ModelRunner._run_preprocess)
        self._forward = probe.timed_phase("forward", ModelRunner._run_forward)
        self._sample = probe.timed_phase("sample", ModelRunner._run_sample)
        self._update_states = probe.timed("update_states", stages.state.update)
        self._build_metadata = probe.timed("attention_metadata", stages.metadata.build)
        self.executor = stages.executor
        self.sampler = stages.sampler
        self.settle_verdicts = stages.settle_verdicts
        """Write the rows of `buffers` that wait for a checksum (`verify_copies`); after the device was waited for."""
        flight = stages.flight
        self.drafter = flight.drafter
        self.outputs = make_outputs(device, probe, self.state, checks.after_sample, flight.handoff, flight.drafter)
        self.correction = make_correction(flight.correction, probe, self.state, self.outputs)

    def execute(self, delta: StepDelta) -> StepResult:
        """Run one step to its end and return the tokens that became visible. Raises as `submit` and `result` do."""
        return self.submit(delta).result()

    def submit(self, delta: StepDelta) -> PendingStep:
        """Enqueue one step; `result()` of what is returned waits for the tokens that become visible.

        Raises UsageError for a delta that makes no sense, or when too many steps are in flight, and BrokenInvariant
        when a check fails.
        """
        with self.probe.step(delta.step) as step:
            delta, update, ready = self._preprocess(self, delta)
            if ready is None:
                return self._idle_step(step, delta, update)
            inputs = ready[0]
            self.checks.after_preprocess(delta, self.state, inputs, self.metadata.common)
            hidden = self._forward(self, step, update, ready)
            sampled, pending = self._sample(self, step, inputs, hidden)
            self.checks.submitted(inputs, sampled)
            return pending

    def _run_preprocess(self, delta: StepDelta) -> tuple[StepDelta, UpdateFigures, _Ready | None]:
        batch = self.state.batch
        delta = self.correction.amend(delta)
        update = self._update_states(delta)
        if not delta.total_num_scheduled_tokens:
            return delta, update, None
        early = self.dispatcher.before(batch, delta)
        inputs = self.inputs.prepare(batch, delta)
        plan = self.dispatcher.after(inputs, early)
        metadata = self._build_metadata(inputs, plan)
        return delta, update, (self.inputs.finish(batch, inputs), plan, metadata)

    def _run_forward(self, step: StepScope, update: UpdateFigures, ready: _Ready) -> torch.Tensor:
        inputs, plan, metadata = ready
        hidden = self.executor.run(plan, inputs, metadata)
        self.inputs.forward_enqueued()
        if step.keeps_figures:  # here, because the device is busy meanwhile
            lens = inputs.seq_lens.tobytes()  # of all that is counted they alone will change
            drafted = inputs.speculation.drafted if inputs.speculation is not None else (0, 0)
            step.note_later(_figures, update, plan, inputs.is_prefilling, lens, drafted)
        return hidden

    def _run_sample(
        self, step: StepScope, inputs: StepInputs, hidden: torch.Tensor
    ) -> tuple[OutputSlot, PendingStep]:
        self._report_logits(inputs)
        sampled = self.sampler.sample(hidden, inputs, self.state.batch.sampling)
        self.drafter.ahead(sampled, inputs, self.state)
        self.inputs.sampling_enqueued()
        return sampled, self.outputs.send(sampled, inputs, step)

    def commit_in_order(self, order: CommitOrder) -> None:
        """Commit the block table in another order from the next step on: the one switch that no part is built around.

        Experiments compare orders so, on one runner. Whether `skip` skips anything is for the workload to see to.
        """
        self.inputs.commit_with(make_commit(order, self.probe))

    def observe(self, observer: Observer | None) -> None:
        """Have `observer` called at the eight points of every later step; None takes it away."""
        self.points.observe(observer)

    def _idle_step(self, step: StepScope, delta: StepDelta, update: UpdateFigures) -> PendingStep:
        """A delta without tokens only changes membership: finished and preempted requests leave."""
        self.checks.after_preprocess(delta, self.state, None, None)
        step.note(num_reqs=0, num_tokens=0, padded_tokens=0, padded_reqs=0, kv_tokens_sum=0, kv_tokens_max=0)
        step.note(num_prefill=0, num_decode=0, drafted_reqs=0, drafted_tokens=0, accepted_tokens=0)
        step.note(**_membership(update))
        return PendingStep(delta.step, lambda: StepResult(delta.step, {}))

    def _report_logits(self, inputs: StepInputs) -> None:
        if self.points.active:
            self.points.reach(
                "logits",
                req_ids=inputs.req_ids,
                logits_indices=inputs.logits_indices,
                query_start_loc=inputs.query_start_loc,
                discard=inputs.discard,
            )


def build_runner(
    config: RunnerConfig, device: Device, probe: ProbeLike, ledger: Ledger, *, allow_hazards: bool = False,
    continuations: Continuations | None = None,
) -> ModelRunner:  # fmt: skip
    """A runner for `config` on `device`, writing into `ledger`, with its graphs captured.

    `allow_hazards` is for tests that build a racing runner on purpose. `continuations` are what a synthetic acceptance
    takes its drafts from. Raises UsageError for an impossible
    configuration, an unknown model, a shape that a modelled device was not calibrated for, or sizes that memory does
    not hold.
    """
    sizes = validate(config, allow_hazards=allow_hazards)
    points = ProbePoints(device.paused)
    try:
        stages = build_stages(Site(config, device, probe, ledger, points, sizes, continuations))
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        raise UsageError(
            f"the runner does not fit into memory; lower one of max_num_seqs ({config.max_num_seqs}),"
            f" max_num_batched_tokens ({config.max_num_batched_tokens}), max_model_len ({config.max_model_len}),"
            f" num_blocks ({config.num_blocks}) and block_size ({config.block_size})"
        ) from error
    return ModelRunner(stages, device, probe, make_checker(config.check, resolve_groups(config), device.paused), points)


def _out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """NumPy raises MemoryError, torch on a GPU its own class, torch on the CPU a RuntimeError with such a text."""
    told = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or any(text in str(error) for text in told)


def _membership(update: UpdateFigures) -> dict[str, int | float | bool | None]:
    return {
        "num_new": update.num_new,
        "num_finished": update.num_finished,
        "num_resumed": update.num_resumed,
        "num_preempted": update.num_preempted,
        "num_moved_rows": update.num_moved_rows,
        "batch_overlap": update.batch_overlap,
    }


def _figures(
    update: UpdateFigures, plan: ExecutionPlan, is_prefilling: BoolArray, lens: bytes, drafted: tuple[int, int]
) -> dict[str, int | float | bool | None]:
    """The step's row, when it is made. `lens` are the sequence lengths as they were, int32."""
    seq_lens = np.frombuffer(lens, dtype=np.int32)
    num_prefill = int(np.count_nonzero(is_prefilling))
    return {
        **_membership(update),
        "num_reqs": plan.num_reqs,
        "num_tokens": plan.num_tokens,
        "padded_tokens": plan.padded_tokens,
        "padded_reqs": plan.padded_reqs,
        "kv_tokens_sum": int(seq_lens.sum(dtype=np.int64)),
        "kv_tokens_max": int(seq_lens.max()),
        "num_prefill": num_prefill,
        "num_decode": plan.num_reqs - num_prefill,
        "drafted_reqs": drafted[0],
        "drafted_tokens": drafted[1],
        **({} if drafted[1] else {"accepted_tokens": 0}),  # else `handoff/pending.py` notes it
    }
