"""The work of a worker: measure the points of a task in this process."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ...instrumentation.recording.meta import SweepKeys
from ...runner.models.weights import shared_weights
from ..launch_groups import measure_launch
from ..measure import measure
from ..point import Point, parameters
from ..summary import origin_of, summary_of
from ..turnstile import turns_of_process
from .failures import classify, describe
from .task import Outcome, Task, all_failed, all_interrupted

RECORDING = "recording"
Interrupted = Callable[[], bool]
resident = shared_weights
"""What a warm worker keeps between its tasks: equal weights are made once."""


def measure_task(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """Measure the points of `task` into folders below `scratch`. A failure is an outcome, and raises nothing."""
    started = time.perf_counter()
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        found = _measured(task, scratch, interrupted, started)
    except KeyboardInterrupt:
        found = list(all_interrupted(task))
    except Exception as error:  # noqa: BLE001 - one point's defect must not cost the others their results
        found = list(all_failed(task, classify(error), describe(error), time.perf_counter() - started))
    return list(all_interrupted(task)) if interrupted() else found


def _measured(task: Task, scratch: Path, interrupted: Interrupted, started: float) -> list[Outcome]:
    if task.points[0].spec.measure.interleave is not None:
        return _launch(task, scratch, interrupted, started)
    (point,) = task.points
    folder = scratch / point.key
    keys = SweepKeys(point=point.id, launch=point.repeat)
    with turns_of_process().measuring():
        measured = measure(point.spec, folder / RECORDING, sweep=keys, interrupted=interrupted)
    record = {**summary_of(measured), **origin_of(measured)}
    return [_ok(point, record, folder, started)]


def _launch(task: Task, scratch: Path, interrupted: Interrupted, started: float) -> list[Outcome]:
    """Arms side by side. What was whole before an arm failed stays."""
    found: list[Outcome] = []
    failure: tuple[str, str] | None = None
    try:
        for point, folder, measured, blocks in measure_launch(task.points, scratch, interrupted):
            record = {**summary_of(measured), **origin_of(measured), "blocks": blocks}
            found.append(_ok(point, record, folder, started))
    except Exception as error:  # noqa: BLE001 - as above
        failure = classify(error), describe(error)
    if failure is not None:
        whole = {outcome.key for outcome in found}
        kind, reason = failure
        found += [one for one in all_failed(task, kind, reason, time.perf_counter() - started) if one.key not in whole]
    return found


def _ok(point: Point, record: dict[str, object], folder: Path, started: float) -> Outcome:
    record = {"parameters": parameters(point.spec), **record}
    return Outcome(point.key, "ok", wall_s=time.perf_counter() - started, record=record, folder=folder)
