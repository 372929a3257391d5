"""Both lists on one runner: every forward that a list may replay runs as either of them would run it, one behind the
other.

Two runners never agree: where a graph's memory lies moves its time by 5 us in either direction (H200, one size captured
twice), and that is what there is to gain. Here a size that both lists have is one graph, and a step that both pad alike
saves nothing, exactly. The other steps have the same rows, lengths and blocks in both, and write the same keys and
values again. A forward ahead of those that count keeps the device busy while the host enqueues them; who comes first
changes from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch

from ...analysis.tables import LongArray
from ...instrumentation.capture_sizes import Sizes
from ...instrumentation.probe import Ledger, NullProbe
from ...runner.config import RunnerConfig
from ...runner.devices.base import Device, GraphKey
from ...runner.dispatch import Dispatcher, graph_limits, row_capacity
from ...runner.dispatch_rules import make_rules, mode_pair
from ...runner.inputs.step_inputs import StepInputs
from ...runner.model_runner import ModelRunner
from ...runner.plan import ExecutionPlan
from ...runner.state.input_batch import InputBatch
from ...workloads.step import StepDelta


class ForwardMarks(NamedTuple):
    """begin, end   a clock's marks around a forward;  queued_ns   on the host's clock, when the device had it"""

    begin: Any
    end: Any
    queued_ns: int


class ForwardClock(Protocol):
    """Tells how long a forward took."""

    what: str

    def mark(self) -> Any:
        """Now, on the device or on the host."""
        ...

    def time_ns(self, forward: ForwardMarks) -> int | None:
        """Once everything is over; None where it is not known."""
        ...


class DeviceClock:
    """Marks behind what was enqueued. A forward that came when the one ahead of it had ended has no time: the device
    waited for the host, and the marks would count that.
    """

    what = "device time of the forward"

    def __init__(self, device: Device) -> None:
        self._device = device

    def mark(self) -> Any:
        """See ForwardClock."""
        return self._device.mark()

    def time_ns(self, forward: ForwardMarks) -> int | None:
        """See ForwardClock."""
        if forward.begin is None or forward.end is None:
            return None
        begin, end = (self._device.resolve_mark(mark, 0) for mark in (forward.begin, forward.end))
        if begin is None or end is None or begin[0] < forward.queued_ns:
            return None
        return end[0] - begin[0]


class HostClock:
    """The host's time, where that computes the forward."""

    what = "host time of the forward, which is computed there"

    def __init__(self, device: Device) -> None:
        self._now_ns: Callable[[], int] = device.clock.now_ns

    def mark(self) -> int:
        """See ForwardClock."""
        return self._now_ns()

    def time_ns(self, forward: ForwardMarks) -> int:
        """See ForwardClock."""
        return int(forward.end - forward.begin)


@dataclass(frozen=True, slots=True)
class BothTimes:
    """What the forwards of the compared steps took with either list, in ns, in the order of the steps.

    steps    their numbers
    untimed  how many more ran, of which a forward has no time
    """

    ladder_ns: LongArray
    chosen_ns: LongArray
    steps: LongArray
    untimed: int


@dataclass(frozen=True, slots=True)
class _Compared:
    """A step's forward with each list; the same one where both pad alike."""

    step: int
    ladder: ForwardMarks
    chosen: ForwardMarks


def room_for_both(config: RunnerConfig, lists: Sequence[Sequence[int]]) -> RunnerConfig:
    """A runner with every size captured, and with the rows that either list's own would have: a batch of max_num_seqs
    is padded to the next size of that list.
    """
    modes, query_len = mode_pair(config.graph_mode), config.decode_query_len
    rows = [row_capacity(modes, tuple(sizes), config.max_num_seqs, query_len) for sizes in lists]
    return replace(config, capture_sizes=_all_sizes(lists), max_capture_size=None, max_num_seqs=max(rows))


def _all_sizes(lists: Sequence[Sequence[int]]) -> Sizes:
    return tuple(sorted({size for sizes in lists for size in sizes}))


class BothLists:
    """Takes the places of a runner's dispatcher and executor; the runner is one with `room_for_both`.

    Compares the steps from number `first` on that both lists replay. The runner goes on with what the last forward
    gave: all of them give the same, but for the rounding of other kernels.
    """

    def __init__(self, runner: ModelRunner, config: RunnerConfig, lists: Sequence[Sequence[int]], first: int) -> None:
        self._executor, self._build = runner.executor, runner.metadata.build
        self.uncaptured: dict[GraphKey, str] = runner.executor.uncaptured
        device = runner.device
        self.clock: ForwardClock = HostClock(device) if device.name == "cpu" else DeviceClock(device)
        self._now_ns = device.clock.now_ns
        self._discarded = Ledger()
        limits = graph_limits(config, _all_sizes(lists))
        self._choosers = [
            Dispatcher(
                make_rules(config.dispatch_rules, replace(limits, sizes=tuple(sizes))), NullProbe(), self._discarded,
                device.captured,
            )
            for sizes in lists
        ]  # fmt: skip
        self._plans: list[ExecutionPlan] = []
        self._early: list[ExecutionPlan | None] = []
        self._first = first
        self._found: list[_Compared] = []
        stages = cast(Any, runner)
        stages.dispatcher = stages.executor = self

    def before(self, batch: InputBatch, delta: StepDelta) -> ExecutionPlan | None:
        """See Dispatcher: what the first list has."""
        self._early = [chooser.before(batch, delta) for chooser in self._choosers]
        return self._early[0]

    def after(self, inputs: StepInputs, early: ExecutionPlan | None) -> ExecutionPlan:
        """See Dispatcher: what the first list has."""
        self._plans = [chooser.after(inputs, one) for chooser, one in zip(self._choosers, self._early, strict=True)]
        self._early = [None] * len(self._choosers)
        self._discarded.take()
        return self._plans[0]

    def run(self, plan: ExecutionPlan, inputs: StepInputs, metadata: Sequence[object]) -> torch.Tensor:
        """See Executor."""
        ladder, chosen = self._plans
        if inputs.step < self._first or ladder.mode == "none" or ladder.mode != chosen.mode:
            return self._executor.run(plan, inputs, metadata)
        forwards = [(ladder, metadata)]
        if chosen != ladder:
            forwards.append((chosen, self._build(inputs, chosen)))
        turns = [0, 1] if len(self._found) % 2 else [1, 0]
        turns = turns[: len(forwards)] if len(forwards) > 1 else [0]
        self._forward(inputs, forwards[turns[-1]])
        self.clock.mark()  # the device's first mark behind other streams' work has none to give
        begin, marks = self.clock.mark(), {}
        for turn in turns:
            hidden, queued_ns = self._forward(inputs, forwards[turn])
            marks[turn] = ForwardMarks(begin, self.clock.mark(), queued_ns)
            begin = marks[turn].end
        self._found.append(_Compared(inputs.step, marks[0], marks.get(1, marks[0])))
        return hidden

    def _forward(
        self, inputs: StepInputs, forward: tuple[ExecutionPlan, Sequence[object]]
    ) -> tuple[torch.Tensor, int]:
        """Hidden states, and when the device had the forward: of one in pieces, which are enqueued while it runs, the
        first.
        """
        plan, metadata = forward
        call_ns = self._now_ns()
        hidden = self._executor.run(plan, inputs, metadata)
        return hidden, self._now_ns() if plan.mode == "full" else call_ns

    def times(self) -> BothTimes:
        """Of the steps with times for both; when the device is done and its rows are written."""
        known: list[tuple[int, int, int]] = []
        for one in self._found:
            ladder, chosen = self.clock.time_ns(one.ladder), self.clock.time_ns(one.chosen)
            if ladder is not None and chosen is not None:
                known.append((one.step, ladder, chosen))
        table = np.array(known, dtype=np.int64).reshape(len(known), 3)
        return BothTimes(table[:, 1], table[:, 2], table[:, 0], len(self._found) - len(known))
