"""Which container runs a step: eager, or a captured graph that the rules find for it."""

from __future__ import annotations

from collections.abc import Callable

from ..instrumentation.capture_sizes import Sizes, padded_size_table
from ..instrumentation.probe.api import ProbeLike
from ..instrumentation.probe.ledger import Ledger
from ..workloads.step import StepDelta
from .config import RunnerConfig
from .devices.base import GraphKey
from .dispatch_rules import DispatchRules, GraphLimits, ModePair, make_rules, mode_pair
from .dispatch_shape import BatchShape, shape_by_state, shape_of_inputs
from .inputs.step_inputs import StepInputs
from .plan import DispatchReason, ExecutionPlan
from .state.input_batch import InputBatch


def row_capacity(modes: ModePair, sizes: Sizes, max_num_seqs: int, decode_query_len: int = 1) -> int:
    """Rows that per-request buffers need: a full graph may pad a batch of `max_num_seqs` beyond it (50 -> 56)."""
    if modes.decode != "full":
        return max_num_seqs
    staged = sorted({-(-size // decode_query_len) * decode_query_len for size in sizes})
    table, tokens = padded_size_table(staged), max_num_seqs * decode_query_len
    if tokens >= len(table):
        return max_num_seqs
    return max(max_num_seqs, table[tokens] // decode_query_len)


def graph_limits(config: RunnerConfig, sizes: Sizes) -> GraphLimits:
    """What the graphs of a runner are captured for. `sizes` are ignored when graphs are off."""
    modes, query_len = mode_pair(config.graph_mode), config.decode_query_len
    sizes = () if config.graph_mode == "none" else sizes
    rows = row_capacity(modes, sizes, config.max_num_seqs, query_len)
    return GraphLimits(modes, sizes, rows, query_len, config.max_num_batched_tokens)


class Dispatcher:
    """Chooses a plan for each step and writes why into the table `dispatch`.

    is_captured  whether a key can be replayed by now
    Rules that need nothing of the prepared inputs decide before they are prepared (`before`), others behind (`after`).
    """

    def __init__(
        self, rules: DispatchRules, probe: ProbeLike, ledger: Ledger, is_captured: Callable[[GraphKey], bool]
    ) -> None:
        self._rules = rules
        self._choose_early = probe.timed("dispatch", Dispatcher._by_state)
        self._choose_late = probe.timed("dispatch", Dispatcher._by_inputs)
        self._ledger = ledger
        self._is_captured = is_captured

    def keys(self) -> tuple[GraphKey, ...]:
        """Every graph that a step may ask for, largest first, so that captures can share memory."""
        return self._rules.keys()

    def before(self, batch: InputBatch, delta: StepDelta) -> ExecutionPlan | None:
        """The plan of a step with at least one token, before anything is prepared; None where the rules wait."""
        if not self._rules.early:
            return None
        return self._choose_early(self, batch, delta)

    def after(self, inputs: StepInputs, early: ExecutionPlan | None) -> ExecutionPlan:
        """The plan of the prepared step: the `early` one, or what rules that waited for it say."""
        return self._choose_late(self, inputs) if early is None else early

    def choose(self, shape: BatchShape) -> ExecutionPlan:
        """The plan of a step that has at least one token."""
        plan = self._plan(shape, self._rules.uniform(shape))
        self._ledger.add(
            "dispatch", plan.num_tokens, plan.num_reqs, plan.uniform, plan.size, plan.mode, plan.reason
        )
        return plan

    def _by_state(self, batch: InputBatch, delta: StepDelta) -> ExecutionPlan:
        return self.choose(shape_by_state(batch, delta))

    def _by_inputs(self, inputs: StepInputs) -> ExecutionPlan:
        return self.choose(shape_of_inputs(inputs))

    def _plan(self, shape: BatchShape, uniform: bool) -> ExecutionPlan:
        tokens, reqs = shape.num_tokens, shape.num_reqs
        reason: DispatchReason = "mixed"
        if not self._rules.largest:
            reason = "disabled"
        elif tokens > self._rules.largest:
            reason = "above_max"
        for key in self._rules.candidates(shape):
            reason = "not_captured"
            rows = reqs if key.rows is None else key.rows
            if rows >= reqs and self._is_captured(key):  # rows without tokens can outnumber the tokens
                return ExecutionPlan(key.mode, "hit", tokens, reqs, key.tokens, rows, uniform, key.tokens)
        return ExecutionPlan("none", reason, tokens, reqs, tokens, reqs, uniform)


def make_dispatcher(
    config: RunnerConfig, sizes: Sizes, probe: ProbeLike, ledger: Ledger, is_captured: Callable[[GraphKey], bool],
    kind: Callable[..., Dispatcher] = Dispatcher,
) -> Dispatcher:  # fmt: skip
    """The dispatcher for the switches `dispatch_rules` and `graph_mode`."""
    return kind(make_rules(config.dispatch_rules, graph_limits(config, sizes)), probe, ledger, is_captured)
