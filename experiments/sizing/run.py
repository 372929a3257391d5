"""Both lists run on the workload's own later part: what each forward took with the one and with the other."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...analysis.sizes.graphs import CaptureCosts, capture_costs
from ...analysis.sizes.judgement import SizesGain, gain_of
from ..estimate import RATES, SLOWEST, START_S, duration
from ..joining import JoinsLate
from ..loop import LoopLimits, StepLoop
from ..resolve import resolve, workload_of
from ..session import Session
from ..spec import PointSpec
from .both import BothLists, room_for_both
from .dry import ModelledTime
from .pace import Pace
from .source import refuse_embeds

if TYPE_CHECKING:
    from ...analysis.sizes.stream import SizesStream
    from ...analysis.tables import LongArray
    from .find import SizesRequest
    from .source import SizesSource
    from .watch import SizesWatch

INTERRUPTED = "interrupted"
SETTLE = 64
"""Steps that are run before those that count: the first one brings every request's row, and clocks and caches settle.
"""
FORWARDS = 3
"""Of a step that the lists pad differently; two of one that they pad alike."""


@dataclass(frozen=True, slots=True)
class SizesLists:
    """The two lists, ascending."""

    chosen: Sequence[int]
    ladder: Sequence[int]


@dataclass(frozen=True, slots=True)
class SizesRun:
    """What the run gave: the gain, of which steps, and of what (`what`); what captures took, where that was measured.

    untimed  steps that ran besides and that no time is known of
    """

    gain: SizesGain
    steps: LongArray
    untimed: int
    what: str
    captures: CaptureCosts


def measured_gain(
    source: SizesSource, lists: SizesLists, request: SizesRequest, rest: SizesStream, watch: SizesWatch
) -> SizesRun | str:
    """The gain of the chosen list over the ladder on the first `request.run` steps from `rest` on, or why it could not
    be measured. Interrupted, by the steps so far.

    Requests arrive in the dry run's modelled time, and the steps that the list was chosen by are only scheduled.
    """
    tree = source.tree
    if tree is None:
        return "the recording does not say how its workload is run"
    if (tree.get("runner") or {}).get("graph_mode") == "none":
        return "the recorded runner has graph_mode none"
    spec, both_sizes = _spec(source, tree, lists.ladder, request.device), (lists.ladder, lists.chosen)
    roomy = replace(spec, runner=room_for_both(spec.runner, both_sizes))
    window = _Window(int(rest.numbers[0]), request.run)
    watch.note(_announcement(spec, window, rest))
    if watch.interrupted:
        return INTERRUPTED
    told = _Told(watch)
    with tempfile.TemporaryDirectory() as folder, closing(Session(roomy, Path(folder), progress=told)) as session:
        both = BothLists(session.runner, roomy.runner, both_sizes, window.first)
        _prepare(session, spec, window, ModelledTime(spec, source.costs, lists.ladder))
        if not _run(session, window, told, watch):
            return INTERRUPTED
        recording = session.finish(own_costs=False).recording
        times = both.times()
    if not len(times.ladder_ns):
        return f"{times.untimed} steps were run, and no forward has a time: the device waited for the host in each"
    gain = gain_of("vllm", times.ladder_ns - times.chosen_ns, float(times.ladder_ns.mean()))
    captures = capture_costs(recording.table("calibration"))
    return SizesRun(gain, times.steps, times.untimed, f"on {recording.meta.device}, {both.clock.what}", captures)


@dataclass(frozen=True, slots=True)
class _Window:
    """The steps that count: `steps` of them from number `first` on. The runner joins at `joined`."""

    first: int
    steps: int

    @property
    def joined(self) -> int:
        return max(0, self.first - SETTLE)


def _spec(source: SizesSource, tree: Mapping[str, Any], sizes: Sequence[int], device: str | None) -> PointSpec:
    """The workload must last as long as where its steps come from: a regime's requests go by the measured steps."""
    runner = {**(tree.get("runner") or {}), "capture_sizes": list(sizes), "max_capture_size": None}
    measure = {"warmup_steps": 0, "steps": source.lasts_steps}
    spec = resolve({**tree, "runner": runner, "device": device or tree.get("device", "auto"), "measure": measure})
    refuse_embeds(spec)
    return spec


def _announcement(spec: PointSpec, window: _Window, rest: SizesStream) -> str:
    """What will run, and about how long that takes."""
    rates, steps = RATES[spec.device], window.first - window.joined + window.steps
    tokens = float(rest.tokens[: window.steps].mean())
    seconds = rates.point_s + steps * (rates.step_s + FORWARDS * tokens * rates.token_s)
    seconds += START_S if spec.device == "cuda" else 0.0
    low, high = duration(seconds / SLOWEST), duration(seconds * SLOWEST)
    return f"running both lists on {spec.device}: {steps:,} steps from step {window.joined:,} on, {low} to {high}"


def _prepare(session: Session, spec: PointSpec, window: _Window, step_time: ModelledTime) -> None:
    """Before its first step: requests are scheduled as `spec` says, arrivals go by `step_time`, and the runner joins
    where the window begins.
    """
    workload = workload_of(spec)
    late = JoinsLate(session.runner, session.device, workload, window.joined)
    paced = Pace(late, session.device, step_time)
    session.loop = StepLoop(workload, paced, session.probe, paced)


class _Told:
    """How far the stage is, of a session's steps."""

    def __init__(self, watch: SizesWatch) -> None:
        self._watch, self._steps = watch, 0

    def __call__(self, answered: int, requests: int) -> None:
        self._steps += 1
        self._watch.to(self._steps)

    def begin(self, what: str, steps: int) -> None:
        """A stage of so many steps."""
        self._steps = 0
        self._watch.begin(what, steps)


def _run(session: Session, window: _Window, told: _Told, watch: SizesWatch) -> bool:
    """The steps before the runner joins, and those of the window; False where nothing counted yet."""
    session.activate()
    stages = [("steps scheduled, not run", window.joined), ("steps run with both lists", window.first + window.steps)]
    for what, end in stages:
        if end > session.loop.num_steps and not watch.interrupted:
            told.begin(what, end - session.loop.num_steps)
            warmup = min(end, window.first)
            session.run(LoopLimits(warmup_steps=warmup, steps=end - warmup), lambda: watch.interrupted)
            session.hand_over()
            watch.end()
    return session.loop.num_steps > window.first
