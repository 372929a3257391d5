"""Who proposes the drafts of the next step: behind the tokens of this one, on the host or on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ...errors import UsageError
from ...instrumentation.probe.api import ProbeLike
from ...workloads.acceptance import parse_acceptance
from ..config import RunnerConfig
from ..handoff.outputs import OutputSlot
from ..inputs.step_inputs import StepInputs
from ..state.input_batch import InputBatch
from ..state.update import WorkerState
from .ngram import NgramProposer, NgramRule
from .synthetic import Continuations, SyntheticSource

Drafts = Mapping[str, tuple[int, ...]]


class Drafter(Protocol):
    """Called twice a step: when its tokens were sampled on the device, and when the host has them.

    num_drafts  most drafts of a request, 0 without speculation
    """

    num_drafts: int

    def ahead(self, slot: OutputSlot, inputs: StepInputs, state: WorkerState) -> None:
        """The step's tokens are, or will be, in `slot` on the device: propose there, or leave it to `propose`."""
        ...

    def propose(self, state: WorkerState, sampled: Mapping[str, tuple[int, ...]]) -> Drafts:
        """Both views of the requests hold the step's tokens, of which `sampled` became visible: drafts for the next
        step of these requests; one without any is absent.
        """
        ...


class _OnHost:
    def ahead(self, slot: OutputSlot, inputs: StepInputs, state: WorkerState) -> None:
        """Nothing: the host has to see the tokens first."""


class NoDrafter(_OnHost):
    """`speculative: off`."""

    num_drafts = 0

    def propose(self, state: WorkerState, sampled: Mapping[str, tuple[int, ...]]) -> Drafts:
        """None."""
        return {}


class NgramDrafter(_OnHost):
    """Looks the last tokens up in each request's own history. Range: propose_drafts."""

    def __init__(self, probe: ProbeLike, config: RunnerConfig) -> None:
        self._look_up = probe.timed("propose_drafts", NgramDrafter._from_histories)
        self.num_drafts = config.num_drafts
        rule = NgramRule(config.num_drafts, config.ngram_min, config.ngram_max)
        self._proposer = NgramProposer(rule, config.max_model_len)

    def propose(self, state: WorkerState, sampled: Mapping[str, tuple[int, ...]]) -> Drafts:
        """For all rows at once; rows that showed nothing are asked for nothing."""
        return self._look_up(self, state.batch, sampled)

    def _from_histories(self, batch: InputBatch, sampled: Mapping[str, tuple[int, ...]]) -> Drafts:
        shown = np.fromiter((req_id in sampled for req_id in batch.req_ids), np.bool_, len(batch.req_ids))
        lengths = np.where(shown, batch.num_tokens[batch.rows], 0)
        histories = batch.token_ids.values[:, : int(lengths.max(initial=0))][batch.rows]
        return self._proposer.propose(histories, lengths).by_request(batch.req_ids)


class SyntheticDrafter(_OnHost):
    """Takes them from a continuation that is known before. Range: propose_drafts."""

    def __init__(self, probe: ProbeLike, source: SyntheticSource, max_model_len: int) -> None:
        self._take = probe.timed("propose_drafts", SyntheticDrafter._take_known)
        self.num_drafts = source.num_drafts
        self._source = source
        self._max_model_len = max_model_len

    def propose(self, state: WorkerState, sampled: Mapping[str, tuple[int, ...]]) -> Drafts:
        """As many as fit in front of max_model_len."""
        return self._take(self, state, sampled)

    def _take_known(self, state: WorkerState, sampled: Mapping[str, tuple[int, ...]]) -> Drafts:
        drafts = {}
        for req_id in sampled:
            request = state.requests[req_id]
            room = self._max_model_len - 1 - request.num_tokens
            proposed = self._source.drafts(req_id, len(request.output_token_ids))
            if room > 0:
                drafts[req_id] = proposed[:room]
        return drafts


def make_host_drafter(
    config: RunnerConfig, probe: ProbeLike, continuations: Continuations | None, vocab_size: int
) -> Drafter:
    """The drafter for the switches `speculative` and `acceptance` that proposes on the host."""
    acceptance = parse_acceptance(config.acceptance)
    if not config.num_drafts:
        return NoDrafter()
    if acceptance is None:
        return NgramDrafter(probe, config)
    known = known_continuations(config, continuations)
    source = SyntheticSource(acceptance, known, config.num_drafts, vocab_size)
    return SyntheticDrafter(probe, source, config.max_model_len)


def known_continuations(config: RunnerConfig, continuations: Continuations | None) -> Continuations:
    """What a synthetic acceptance needs. Raises UsageError without it."""
    if continuations is None:
        raise UsageError(
            f"acceptance: {config.acceptance} needs the continuation of every request before the run, and none was"
            " given; use ngram, or pass continuations"
        )
    return continuations
