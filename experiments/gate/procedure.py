"""The procedure of a paired gate: launches of both arms, verdicts, fresh launches where they are needed, a result."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path

from ...analysis.gate.block_values import gated
from ...analysis.gate.conditions import told
from ...analysis.gate.equal_arms import EqualArms
from ...analysis.gate.fingerprint import modelled_note
from ...analysis.gate.matching import unmatched
from ...analysis.gate.result import GateResult
from ...analysis.gate.suite import judge_suite
from ...analysis.gate.verdict import Reason
from ...instrumentation.telemetry import TelemetrySampler
from ..interrupt import terminable
from .announce import announced, counted, told_time
from .arms import program
from .calibrations import Book, open_book, work_of
from .judging import Measured, Spread, besides, judge, levels
from .launch import ARMS, Bench, Launch, Say, measure_launch
from .points import Points, points_of
from .request import GateRequest
from .same_work import machine_of
from .series import series_of
from .watch import Watch


@dataclass(frozen=True, slots=True)
class Gated:
    """The result, and the launches that it rests on, for whoever keeps raw data."""

    result: GateResult
    measured: Measured


def run_gate(request: GateRequest, say: Say, today: Callable[[], date] = date.today) -> Gated:
    """Measure and judge. UsageError for arms or specs that cannot be used; all else is a verdict."""
    began = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with benched(request) as bench:
        names = [name for name in bench.points["base"] if name in bench.points["head"]]
        for line in announced(request, {name: bench.points["base"][name] for name in names}, today()):
            say(line)
        first = stage(bench, names, request.limits.launches, 0, say)
        book, spread = _spreads(request, bench.points["base"], first, today())
        measured = Measured(series_of(first, names), {})
        lost = unmatched(bench.points["base"], bench.points["head"], allow_new=request.allow_new)
        suite = judge_suite([*lost, *judge(measured, request.metrics, spread, request.limits)], request.limits)
        again = list(dict.fromkeys(point for point, _ in suite.confirm()))
        if again and request.confirm:
            say(f"fresh launches for {', '.join(again)}")
            fresh = stage(bench, again, request.limits.launches, request.limits.launches, say)
            measured = Measured(measured.first, series_of(fresh, again))
            suite = judge_suite([*lost, *judge(measured, request.metrics, spread, request.limits)], request.limits)
    base, head = request.arms
    machine = {} if book is None else book.machine
    notes = (
        *modelled_note(machine), *_calibration_notes(book, spread, measured, request), *_telemetry_notes(measured),
    )
    result = GateResult(
        suite, "paired", base.title, head.title, machine, notes, levels(measured), besides(measured, request.limits),
        bench.programs["head"].commit, began,
    )  # fmt: skip
    return Gated(result, measured)


@contextmanager
def benched(request: GateRequest) -> Iterator[Bench]:
    """Both arms ready to be started, in a folder of their own that is gone afterwards."""
    steps = request.blocks.launch_steps(request.limits.pairs)
    points = {arm.name: points_of(arm, request.spec, request.params, steps) for arm in request.arms}
    scratch = Path(tempfile.mkdtemp(prefix="perf-gate-"))
    sampler = TelemetrySampler()
    try:
        with terminable():
            programs = {}
            for arm in request.arms:
                (scratch / arm.name).mkdir()
                programs[arm.name] = program(arm, scratch / arm.name)
            watch = Watch(sampler, device=True)
            named = frozenset(path for arm in request.arms for path in arm.switches)
            yield Bench(programs, points, request.blocks, request.limits.pairs, scratch, watch, named=named)
    finally:
        sampler.close()
        shutil.rmtree(scratch, ignore_errors=True)


def stage(bench: Bench, names: Sequence[str], launches: int, begin: int, say: Say) -> list[Launch]:
    """`launches` launches, numbered from `begin`; a point that failed, or must not be compared, is not tried again."""
    left = list(names)
    found: list[Launch] = []
    for number in range(begin, begin + launches):
        if not left:
            break
        say(f"launch {number - begin + 1} of {launches}: {counted(len(left))}")
        begun = time.monotonic()
        found.append(measure_launch(bench, left, number, say))
        if number == begin and launches > 1:
            took = time.monotonic() - begun
            say(f"it took {told_time(took)}: about {told_time(took * (launches - 1))} for the others of this stage")
        left = [name for name in left if not found[-1][name].failures and found[-1][name].refused is None]
    return found


def _spreads(
    request: GateRequest, points: Points, launches: Sequence[Launch], today: date
) -> tuple[Book | None, Spread]:
    """The machine's calibrations, and what they say of a point's metric."""
    opened = [one.opened["base"] for launch in launches for one in launch.values() if one.opened]
    if not opened:
        return None, lambda point, metric: Reason.NO_CALIBRATION
    machine = machine_of(opened[0])
    book = open_book(machine, request.calibration)
    now = (machine, request.limits.pairs, request.blocks.steps, today)

    def spread(point: str, metric: str) -> EqualArms | Reason:
        return book.spread(point, work_of(points[point]), metric, now, request.limits)

    return book, spread


def _calibration_notes(
    book: Book | None, spread: Spread, measured: Measured, request: GateRequest
) -> Iterator[str]:
    """Which calibration was used; why metrics have none."""
    if book is None:
        return
    wanted = [
        spread(point, metric) for point, series in measured.first.items() if not (series.failures or series.refused)
        for metric in request.metrics or gated(series.metrics("base")) if metric in series.metrics("base")
    ]  # fmt: skip
    missing = sorted({reason.value for reason in wanted if isinstance(reason, Reason)})
    if missing:
        yield (
            f"calibration: {', '.join(missing)} ({book.path}): what is not calibrated cannot fail;"
            " run perf gate calibrate with the same spec"
        )
    days = sorted({entry.measured_on.isoformat() for entry in book.entries})
    if len(missing) == 0 and days:
        yield f"calibrated on this machine on {', '.join(days)} ({book.path})"


def _telemetry_notes(measured: Measured) -> tuple[str, ...]:
    usable = [
        series for stage in (measured.first, measured.fresh) for series in stage.values()
        if series.launches and not (series.failures or series.refused)
    ]  # fmt: skip
    blocks = [block for series in usable for one in series.launches for arm in ARMS for block in one.conditions[arm]]
    return told(blocks, [drop for series in usable for drop in series.drops]) if usable else ()


