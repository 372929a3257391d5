"""The stages of a runner that takes prompt embeddings, each its plain sibling and one thing more.

A step in which no token has an embedding goes the ordinary way: ids into the model, graphs included. Otherwise the
embeddings of ids and those that were brought are merged outside of any graph, and the step runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ..instrumentation.probe.api import ProbeLike
from ..instrumentation.probe.ledger import Ledger
from ..workloads.step import NewRequest, StepDelta
from .devices.base import GraphKey
from .dispatch import Dispatcher
from .dispatch_rules import DispatchRules
from .dispatch_shape import shape_by_state
from .executor import Executor
from .inputs.prepare import InputPreparation
from .inputs.prompt_embeds import PromptEmbeddings
from .inputs.step_inputs import StepInputs
from .plan import ExecutionPlan
from .state.input_batch import InputBatch
from .state.request_state import CachedRequestState
from .state.update import UpdateFigures, WorkerState


class EmbeddingState(WorkerState):
    """Hears of embeddings with new requests, and keeps them as long as these live, with a row or without."""

    takes_embeds = True

    def __init__(self, embeds: PromptEmbeddings, *parts: Any) -> None:
        super().__init__(*parts)
        self._embeds = embeds

    def update(self, delta: StepDelta) -> UpdateFigures:
        """See WorkerState."""
        for req_id in delta.finished_req_ids:
            self._embeds.of.pop(req_id, None)
        return super().update(delta)

    def _create(self, new: NewRequest, step: int) -> CachedRequestState:
        state = super()._create(new, step)
        if new.prompt_embeds is not None:
            self._embeds.arrived(new.req_id, new.prompt_embeds, new.prompt_token_ids.size, step)
        return state

    def _add(self, state: CachedRequestState) -> None:
        super()._add(state)
        self._embeds.placed(state.req_id, self.batch)


class EmbeddingPreparation(InputPreparation):
    """Copies what this step's tokens have, behind everything else that is prepared, in a range of its own."""

    def __init__(self, embeds: PromptEmbeddings, probe: ProbeLike, *parts: Any) -> None:
        super().__init__(probe, *parts)
        self._stage = probe.timed("prompt_embeds", embeds.stage)

    def prepare(self, batch: InputBatch, delta: StepDelta) -> StepInputs:
        """See InputPreparation."""
        inputs = super().prepare(batch, delta)
        inputs.merge_embeds = self._stage(batch, inputs)
        return inputs


class EmbeddingDispatcher(Dispatcher):
    """Runs a step with embeddings eagerly, whatever the rules say."""

    def __init__(
        self, embeds: PromptEmbeddings, rules: DispatchRules, probe: ProbeLike, ledger: Ledger,
        is_captured: Callable[[GraphKey], bool],
    ) -> None:  # fmt: skip
        super().__init__(rules, probe, ledger, is_captured)
        self._embeds = embeds
        self._choose_eager = probe.timed("dispatch", EmbeddingDispatcher._eager)

    def before(self, batch: InputBatch, delta: StepDelta) -> ExecutionPlan | None:
        """See Dispatcher; here also rules that wait for prepared inputs are answered early."""
        if not self._embeds.in_step(batch, delta):
            return super().before(batch, delta)
        return self._choose_eager(self, batch, delta)

    def _eager(self, batch: InputBatch, delta: StepDelta) -> ExecutionPlan:
        tokens, reqs = delta.total_num_scheduled_tokens, batch.num_reqs
        uniform = self._rules.uniform(shape_by_state(batch, delta))
        plan = ExecutionPlan("none", "prompt_embeds", tokens, reqs, tokens, reqs, uniform)
        self._ledger.add("dispatch", tokens, reqs, uniform, None, plan.mode, plan.reason)
        return plan


class EmbeddingExecutor(Executor):
    """Gives the model embeddings in the place of ids where the step has some."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._plain = self._model

    def run(self, plan: ExecutionPlan, inputs: StepInputs, metadata: Sequence[object]) -> torch.Tensor:
        """See Executor."""
        merge = inputs.merge_embeds
        if merge is None:
            return super().run(plan, inputs, metadata)
        assert plan.mode == "none", "embeddings are merged outside of graphs"
        self._model = self._plain.embedding_by(lambda ids: merge(self._plain.embed(ids)))
        try:
            return super().run(plan, inputs, metadata)
        finally:
            self._model = self._plain


@dataclass(frozen=True, slots=True)
class StageKinds:
    """What makes the four stages that embeddings concern."""

    state: Callable[..., WorkerState]
    preparation: Callable[..., InputPreparation]
    dispatcher: Callable[..., Dispatcher]
    executor: Callable[..., Executor]


def stage_kinds(embeds: PromptEmbeddings | None) -> StageKinds:
    """The plain ones where no embeddings are taken: their steps know nothing of this file."""
    if embeds is None:
        return StageKinds(WorkerState, InputPreparation, Dispatcher, Executor)
    return StageKinds(
        partial(EmbeddingState, embeds), partial(EmbeddingPreparation, embeds), partial(EmbeddingDispatcher, embeds),
        EmbeddingExecutor,
    )  # fmt: skip
