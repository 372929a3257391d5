"""Both lists run on the workload's own later part: what the forward took on the device, list beside list."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...analysis.sizes.graphs import CaptureCosts, capture_costs
from ...analysis.sizes.judgement import SizesGain, gain_of
from ...analysis.tables import LongArray, Process, first_by, processes
from ...instrumentation.recording.reader import Recording
from ..estimate import RATES, SLOWEST, START_S, duration
from ..interleaved import turns
from ..joining import JoinsLate
from ..loop import LoopLimits, StepLoop
from ..resolve import resolve, workload_of
from ..session import Session
from ..spec import PointSpec
from .dry import ModelledTime
from .pace import Pace

if TYPE_CHECKING:
    from ...analysis.sizes.stream import SizesStream
    from .find import SizesRequest
    from .source import SizesSource
    from .watch import SizesWatch

FIGURES = {"busy_ns": "device time of the forward", "span_ns": "device time of the forward"}
"""Of the phase `forward`, the first one that was recorded: work where the device's work is known, else the span."""
ON_THE_HOST = {"host_ns": "host time of the forward, which is computed there"}
"""Of the device cpu."""
INTERRUPTED = "interrupted"
TURNS = 200
"""Turns of each arm at most. The speed of a machine drifts within seconds: with 20 turns of half a second each the arms
were 10 us apart in either direction from turn to turn (H200).
"""
SETTLE = 64
"""Steps that are run before those that count: the first one brings every request's row, and clocks and caches settle.
"""


@dataclass(frozen=True, slots=True)
class SizesLists:
    """The two lists, ascending."""

    chosen: Sequence[int]
    ladder: Sequence[int]


@dataclass(frozen=True, slots=True)
class SizesRun:
    """What the run gave: the gain, and of what (`what`); what each list's captures took, where that was measured."""

    gain: SizesGain
    what: str
    chosen: CaptureCosts
    ladder: CaptureCosts


def measured_gain(
    source: SizesSource, lists: SizesLists, request: SizesRequest, rest: SizesStream, watch: SizesWatch
) -> SizesRun | str:
    """The gain of the chosen list over the ladder on the first `request.run` steps from `rest` on, or why it could not
    be measured. Interrupted, by the steps that both have run.

    Requests arrive in the dry run's modelled time and the steps that the list was chosen by are only scheduled, so that
    a step is the same step in both arms, which live side by side and take turns. It is compared with that of the same
    number.
    """
    tree = source.tree
    if tree is None:
        return "the recording does not say how its workload is run"
    if (tree.get("runner") or {}).get("graph_mode") == "none":
        return "the recorded runner has graph_mode none"
    specs = [_spec(source, tree, sizes, request.device) for sizes in (lists.ladder, lists.chosen)]
    window = _Window(int(rest.numbers[0]), request.run)
    watch.note(_announcement(specs[0], window, rest))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        both = _Both(window, watch)
        for number, spec in enumerate(specs):
            if watch.interrupted:
                return INTERRUPTED
            session = stack.enter_context(closing(Session(spec, Path(folder) / str(number), progress=both.advanced)))
            _prepare(session, window, ModelledTime(spec, source.costs, lists.ladder))
            both.sessions.append(session)
        ran = both.run()
        recordings = [session.finish(own_costs=False).recording for session in both.sessions if ran]
    return _outcome(recordings, max(*lists.chosen, *lists.ladder), request.run) if ran else INTERRUPTED


@dataclass(frozen=True, slots=True)
class _Window:
    """The steps that count: `steps` of them from number `first` on. The runners join at `joined`."""

    first: int
    steps: int

    @property
    def joined(self) -> int:
        return max(0, self.first - SETTLE)


def _spec(source: SizesSource, tree: Mapping[str, Any], sizes: Sequence[int], device: str | None) -> PointSpec:
    """The workload must last as long as where its steps come from: a regime's requests go by the measured steps."""
    runner = {**(tree.get("runner") or {}), "capture_sizes": list(sizes), "max_capture_size": None}
    measure = {"warmup_steps": 0, "steps": source.lasts_steps}
    return resolve({**tree, "runner": runner, "device": device or tree.get("device", "auto"), "measure": measure})


def _announcement(spec: PointSpec, window: _Window, rest: SizesStream) -> str:
    """What will run, and about how long that takes."""
    rates, steps = RATES[spec.device], window.first - window.joined + window.steps
    tokens = float(rest.tokens[: window.steps].mean())
    seconds = 2 * (rates.point_s + steps * (rates.step_s + tokens * rates.token_s))
    seconds += 2 * START_S if spec.device == "cuda" else 0.0
    low, high = duration(seconds / SLOWEST), duration(seconds * SLOWEST)
    return f"running both lists on {spec.device}: {steps:,} steps each from step {window.joined:,} on, {low} to {high}"


def _prepare(session: Session, window: _Window, step_time: ModelledTime) -> None:
    """Before its first step: arrivals go by `step_time`, and the runner joins where the window begins."""
    workload = workload_of(session.spec)
    late = JoinsLate(session.runner, session.device, workload, window.joined)
    paced = Pace(late, session.device, step_time)
    session.loop = StepLoop(workload, paced, session.probe, paced)


class _Both:
    """The arms, and how far they are."""

    def __init__(self, window: _Window, watch: SizesWatch) -> None:
        self.sessions: list[Session] = []
        self._window, self._watch, self._base = window, watch, 0

    def advanced(self, answered: int, requests: int) -> None:
        """A step of one of them is over."""
        self._watch.to(self._steps - self._base)

    @property
    def _steps(self) -> int:
        return sum(session.loop.num_steps for session in self.sessions)

    def run(self) -> bool:
        """Every step of both, in turns A B B A; False where the interruption came before anything counted."""
        window = self._window
        if window.joined:
            self._stage("steps scheduled, not run", [window.joined])
        borders = np.linspace(0, window.steps, min(TURNS, window.steps) + 1).tolist()
        self._stage("steps run with both lists", [window.first, *(window.first + round(at) for at in borders[1:])])
        return min(session.loop.num_steps for session in self.sessions) > window.first

    def _stage(self, what: str, ends: Sequence[int]) -> None:
        """To each of the `ends`, numbers of steps, in turn."""
        watch, first = self._watch, self._window.first
        self._base = self._steps
        watch.begin(what, len(self.sessions) * ends[-1] - self._base)
        for place, arm in enumerate(turns(len(self.sessions), len(ends))):
            if watch.interrupted:
                break
            session, end = self.sessions[arm], ends[place // len(self.sessions)]
            session.activate()
            limits = LoopLimits(warmup_steps=min(end, first), steps=max(0, end - first))
            session.run(limits, lambda: watch.interrupted)
            session.hand_over()
        watch.end()


def _outcome(recordings: Sequence[Recording], reach: int, steps: int) -> SizesRun | str:
    (base, what), (mine, _) = (forward_times(recording, reach) for recording in recordings)
    count = min(steps, len(base), len(mine))
    if not count:
        return "no time of a forward was recorded behind the steps that the list was chosen by"
    gain = gain_of("vllm", base[:count] - mine[:count], float(base[:count].mean()))
    ladder, chosen = (capture_costs(recording.table("calibration")) for recording in recordings)
    return SizesRun(gain, f"on {recordings[0].meta.device}, {what}", chosen, ladder)


def forward_times(recording: Recording, reach: int) -> tuple[LongArray, str]:
    """Time in ns of the forward of each counted step of at most `reach` tokens, in the order of the steps, and what
    time that is; no times where nothing was measured.
    """
    figures = ON_THE_HOST if recording.meta.device == "cpu" else FIGURES
    for figure, what in figures.items():
        times: list[LongArray] = []
        for process in processes(recording):
            rows = process.counted("phases")
            rows = rows[rows.matches("name", "forward")]
            value, known = rows.ints(figure)
            at = first_by(rows.ints("step")[0], known, _replayable(process, reach))
            times.append(value[at[at >= 0]])
        if sum(map(len, times)):
            return np.concatenate(times), what
    return np.empty(0, dtype=np.int64), ""


def _replayable(process: Process, reach: int) -> LongArray:
    """Numbers of the counted steps that one of the lists may have a graph for, ascending."""
    rows = process.counted("dispatch")
    tokens, known = rows.ints("num_tokens")
    numbers: LongArray = np.unique(rows.ints("step")[0][known & (tokens <= reach)])
    return numbers
