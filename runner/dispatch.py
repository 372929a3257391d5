"""Which container runs a step: eager, or a graph captured for the next larger size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import UsageError
from ..instrumentation.capture_sizes import padded_size_table
from ..instrumentation.probe.ledger import Ledger
from .config import GraphModeSwitch
from .devices.base import GraphKey, GraphMode
from .inputs.step_inputs import StepInputs
from .plan import DispatchReason, ExecutionPlan


@dataclass(frozen=True, slots=True)
class ModePair:
    """The graph mode of a uniform decode, and that of any other batch."""

    decode: GraphMode
    mixed: GraphMode


MODE_PAIRS: dict[GraphModeSwitch, ModePair] = {
    "none": ModePair("none", "none"),
    "piecewise": ModePair("piecewise", "piecewise"),
    "full": ModePair("full", "full"),
    "full_decode_only": ModePair("full", "none"),
    "full_and_piecewise": ModePair("full", "piecewise"),
}


def mode_pair(switch: GraphModeSwitch) -> ModePair:
    """The pair behind the switch `graph_mode`."""
    try:
        return MODE_PAIRS[switch]
    except KeyError:
        known = ", ".join(MODE_PAIRS)
        raise UsageError(f"graph_mode: unknown value {switch!r}; known are {known}") from None


def row_capacity(switch: GraphModeSwitch, sizes: tuple[int, ...], max_num_seqs: int) -> int:
    """Rows that per-request buffers need: a full graph may pad a batch of `max_num_seqs` beyond it (50 -> 56)."""
    table = padded_size_table(sizes)
    if mode_pair(switch).decode != "full" or max_num_seqs >= len(table):
        return max_num_seqs
    return max(max_num_seqs, table[max_num_seqs])


class Dispatcher:
    """Chooses a plan for each step and writes why into the table `dispatch`.

    sizes        captured token counts, ascending; ignored when graphs are off
    rows         row capacity of the containers (`row_capacity`)
    is_captured  whether a key can be replayed by now
    """

    def __init__(
        self,
        switch: GraphModeSwitch,
        sizes: tuple[int, ...],
        rows: int,
        ledger: Ledger,
        is_captured: Callable[[GraphKey], bool],
    ) -> None:
        self._pair = mode_pair(switch)
        self._rows = rows
        self._ledger = ledger
        self._is_captured = is_captured
        self.sizes = () if switch == "none" else sizes
        self._padded = padded_size_table(self.sizes)

    def keys(self) -> tuple[GraphKey, ...]:
        """Every graph that a step may ask for, largest first, so that captures can share memory."""
        keys: dict[GraphKey, None] = {}
        for size in sorted(self.sizes, reverse=True):
            if self._pair.decode == "full" and (self._pair.mixed == "full" or size <= self._rows):
                keys[self._key("full", size)] = None
            if self._pair.mixed == "piecewise":
                keys[self._key("piecewise", size)] = None
        return tuple(keys)

    def choose(self, inputs: StepInputs) -> ExecutionPlan:
        """The plan of a step that has at least one token."""
        uniform = is_uniform_decode(inputs)
        plan = self._plan(inputs.num_tokens, inputs.num_reqs, uniform)
        self._ledger.add(
            "dispatch", plan.num_tokens, plan.num_reqs, plan.uniform, plan.size, plan.mode, plan.reason
        )
        return plan

    def _plan(self, num_tokens: int, num_reqs: int, uniform: bool) -> ExecutionPlan:
        reason: DispatchReason
        if not self.sizes:
            reason = "disabled"
        elif num_tokens >= len(self._padded):
            reason = "above_max"
        else:
            size = self._padded[num_tokens]
            modes = self._modes(uniform)
            for mode in modes:
                key = self._key(mode, size)
                rows = num_reqs if key.rows is None else key.rows
                if rows >= num_reqs and self._is_captured(key):  # rows without tokens can outnumber the tokens
                    return ExecutionPlan(mode, "hit", num_tokens, num_reqs, size, rows, uniform, size)
            reason = "not_captured" if modes else "mixed"
        return ExecutionPlan("none", reason, num_tokens, num_reqs, num_tokens, num_reqs, uniform)

    def _modes(self, uniform: bool) -> tuple[GraphMode, ...]:
        """Modes to try, best first. A decode may fall back to the mixed mode's graph, never the other way round."""
        wanted = (self._pair.decode, self._pair.mixed) if uniform else (self._pair.mixed,)
        return tuple(dict.fromkeys(mode for mode in wanted if mode != "none"))

    def _key(self, mode: GraphMode, size: int) -> GraphKey:
        return GraphKey(mode, size, min(size, self._rows) if mode == "full" else None)


def is_uniform_decode(inputs: StepInputs) -> bool:
    """Whether every request is past its prompt and has one token.

    Decided by the requests' state: one token of a prompt looks like a decode and is none.
    """
    if inputs.num_tokens != inputs.num_reqs or inputs.num_scheduled.max(initial=0) > 1:
        return False
    return not inputs.is_prefilling.any()
