"""`perf gate calibrate`: equal arms side by side, and how much they differ from launch to launch on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ...analysis.gate.block_values import BESIDE, GATED, OF_THE_STEP, PERIOD, step_time
from ...analysis.gate.calibration import calibrate
from ...analysis.gate.detectable import plan
from ...analysis.gate.effects import launch_effects
from ...analysis.gate.equal_arms import EqualArms, may_remember
from ...analysis.gate.fingerprint import differences
from ...analysis.gate.limits import Limits
from ...analysis.gate.pairs import Floats
from ...analysis.gate.spreads import Spread
from ...errors import MeasurementError
from .calibrations import Book, Entry, identity_of, open_book, read_book, work_of
from .launch import Launch, Say
from .procedure import benched, stage
from .request import GateRequest
from .same_work import machine_of
from .series import Series, series_of

_TRIES = 1.5
"""Launches that may be lost to the machine: so many times the least number are made at most."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """`effects`: (point, metric) -> log of the arms' ratio, or share of the step, by launch."""

    book: Book
    spreads: tuple[Spread, ...]
    effects: dict[tuple[str, str], Floats]
    launches: tuple[Launch, ...]


def run_calibration(request: GateRequest, say: Say, today: Callable[[], date] = date.today) -> Calibrated:
    """Measure both of `request.arms`, which are the same, and store the spread of every timed metric of every point.

    Where launches in a row resemble each other it takes twice as many. MeasurementError where a point failed or too few
    launches were whole.
    """
    least = request.limits.calibration_launches
    begun = time.monotonic()
    with benched(request) as bench:
        names = list(bench.points["base"])
        launches: list[Launch] = stage(bench, names, least, 0, say)
        _check(launches)
        while len(launches) < _TRIES * least and _least_whole(series_of(launches, names)) < least:
            launches += stage(bench, names, 1, len(launches), say)
            _check(launches)
        if may_remember(_of_steps(series_of(launches, names))):
            say("launches in a row resemble each other: as many again show by how much")
            launches += stage(bench, names, least, len(launches), say)
            _check(launches)
    launch_s = (time.monotonic() - begun) / len(launches) / len(names)
    found = series_of(launches, names)
    opened = {name: launches[0][name].opened["base"] for name in names}
    entries: list[Entry] = []
    effects: dict[tuple[str, str], Floats] = {}
    for name, series in found.items():
        work = work_of(bench.points["base"][name])
        for metric in (metric for metric in (*GATED, *BESIDE) if metric in series.metrics("base")):
            values = effects[name, metric] = _effects(series, metric)
            equal = _spread(values, metric, (request.limits, today()))
            size = request.limits.pairs, request.blocks.steps
            entries.append(Entry(
                name, work, metric, float(equal.sd), int(equal.launches), *size, today(), round(launch_s, 3),
                float(equal.offset), float(equal.memory),
            ))  # fmt: skip
    book = _book(machine_of(opened[names[0]]), request).with_entries(entries)
    book.save()
    return Calibrated(book, _spreads(entries, request.limits), effects, tuple(launches))


def planned(path: Path, limits: Limits) -> tuple[Spread, ...]:
    """What a gate with `limits` would find on the machine whose calibration is in `path`."""
    return _spreads(read_book(path).entries, limits)


def _spreads(entries: Sequence[Entry], limits: Limits) -> tuple[Spread, ...]:
    points = len({entry.point for entry in entries})
    return tuple(Spread(e.point, e.metric, e.sd, e.launches, plan(e.equal, points, limits)) for e in entries)


def _book(machine: Mapping[str, Any], request: GateRequest) -> Book:
    """Where the entries go; what a file knows of another machine is of no use any more."""
    book = open_book(machine, request.calibration)
    return Book(book.path, identity_of(machine)) if differences(book.machine, machine) else book


def _check(launches: Sequence[Launch]) -> None:
    for name, one in launches[-1].items():
        for why in (*one.failures.values(), *([one.refused[1]] if one.refused else [])):
            raise MeasurementError(f"gate calibration: {name}: {why}")


def _effects(series: Series, metric: str) -> Floats:
    """[launches] of equal arms; not-a-number where the machine took too many pairs."""
    blocks = series.pairs(metric)
    return launch_effects(blocks.differences, blocks.head_first)


def _of_steps(found: Mapping[str, Series]) -> Floats:
    """[points, launches] of what a step takes."""
    return np.array([_effects(series, step_time(series.metrics("base"))) for series in found.values()])


def _least_whole(found: Mapping[str, Series]) -> int:
    """Whole launches of the point that has fewest, by the step's period."""
    return min(int(np.isfinite(_effects(series, PERIOD)).sum()) for series in found.values())


def _spread(values: Floats, metric: str, at: tuple[Limits, date]) -> EqualArms:
    """What equal arms showed. A metric that may be zero may also never differ: then nothing of it is noise."""
    limits, today = at
    known = values[np.isfinite(values)]
    if metric in OF_THE_STEP and len(known) >= limits.calibration_launches and not np.ptp(known) > 0:
        return EqualArms(0.0, len(known), float(known[0]))
    return calibrate(values, today, {}, limits).equal
