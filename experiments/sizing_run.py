"""Both lists run on the workload's own later part: what the forward took on the device, list beside list."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..analysis.sizes_judgement import SizesGain, gain_of
from ..analysis.tables import LongArray, Process, first_by, processes
from ..instrumentation.recording.reader import Recording
from .loop import LoopLimits
from .resolve import resolve
from .spec import PointSpec

if TYPE_CHECKING:
    from ..analysis.sizes_costs import SizesCosts
    from .sizing import SizesRequest
    from .sizing_source import SizesSource

FIGURES = ("busy_ns", "span_ns")
"""Of the phase `forward`, the first one that was recorded: work where the device's work is known, else the span."""


def measured_gain(
    source: SizesSource, chosen: Sequence[int], ladder: Sequence[int], request: SizesRequest, skip: int
) -> SizesGain | str:
    """The gain of `chosen` over `ladder`, or why it could not be measured.

    The steps that the list was chosen by are run as warm-up. One list runs behind the other; a step is compared with
    that of the same number. Requests arrive in the dry run's modelled time, so that it is the same step.
    """
    tree = source.tree
    if tree is None:
        return "the recording does not say how its workload is run"
    found: list[LongArray] = []
    for sizes in (ladder, chosen):
        runner = {**(tree.get("runner") or {}), "capture_sizes": list(sizes), "max_capture_size": None}
        section = {
            **tree, "runner": runner, "device": request.device or tree.get("device", "auto"),
            "measure": {"warmup_steps": skip, "steps": request.run},
        }  # fmt: skip
        if runner.get("graph_mode") == "none":
            return "the recorded runner has graph_mode none"
        with tempfile.TemporaryDirectory() as folder:
            recording = _recorded(resolve(section), Path(folder) / "recording", request.run, (source.costs, ladder))
            times = forward_times(recording, max(*chosen, *ladder))
        if times is None:
            return "no device time of a forward was recorded behind the steps that the list was chosen by"
        found.append(times)
    base, mine = found
    count = min(request.run, *map(len, found))
    if not count:
        return "the workload has no steps behind those that the list was chosen by"
    return gain_of("vllm", base[:count] - mine[:count], float(base[:count].mean()))


def _recorded(
    spec: PointSpec, folder: Path, steps: int, paced_by: tuple[SizesCosts, Sequence[int]]
) -> Recording:
    """The point's recording, every step behind the warm-up counted: what the probe costs is no matter here."""
    from .session import Session
    from .sizing_dry import ModelledTime
    from .sizing_pace import pace

    with closing(Session(spec, folder)) as session:
        pace(session, ModelledTime(spec, *paced_by))
        session.run(LoopLimits(warmup_steps=session.warmup_steps, steps=steps))
        return session.finish(own_costs=False).recording


def forward_times(recording: Recording, reach: int) -> LongArray | None:
    """Device time in ns of the forward of each counted step of at most `reach` tokens, in the order of the steps; None
    where nothing was measured.
    """
    for figure in FIGURES:
        times: list[LongArray] = []
        for process in processes(recording):
            rows = process.counted("phases")
            rows = rows[rows.matches("name", "forward")]
            value, known = rows.ints(figure)
            at = first_by(rows.ints("step")[0], known, _replayable(process, reach))
            times.append(value[at[at >= 0]])
        if sum(map(len, times)):
            return np.concatenate(times)
    return None


def _replayable(process: Process, reach: int) -> LongArray:
    """Numbers of the counted steps that one of the lists may have a graph for, ascending."""
    rows = process.counted("dispatch")
    tokens, known = rows.ints("num_tokens")
    numbers: LongArray = np.unique(rows.ints("step")[0][known & (tokens <= reach)])
    return numbers
