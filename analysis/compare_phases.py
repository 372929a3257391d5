"""Host and device time of the phases, step pair by step pair.

Of two views of one run the host's figures agree when they differ by no more than what opening and closing a range
costs. A device's span between events contains the work that a profiler saw of the same phase: it begins no later and
ends no earlier, within the err of the events and of the two clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .columns import BoolArray, Columns, LongArray
from .compare_steps import StepPairs
from .stats import median, quantile
from .tables import Process

PHASES = ("preprocess", "forward", "sample", "between_steps")
BORDER_NS = 2_500
"""What a border of a range may cost under a profiler: the call that opens or closes it, and the clock's reading."""

Verdict = Literal["agrees", "differs", "not judged"]


@dataclass(frozen=True, slots=True)
class PairedFigure:
    """One figure over the pairs of steps that have it on both sides; differences are b - a.

    `within` counts pairs whose difference is no more than `err_ns`; both are null where nothing judges.
    """

    name: str
    figure: str
    n: int
    a_p50_ns: float | None
    b_p50_ns: float | None
    delta_p50_ns: float | None
    delta_p10_ns: int | None
    delta_p90_ns: int | None
    err_ns: int | None
    within: int | None
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Containment:
    """Device work of a phase inside the span between its events. `worst_ns` is how far it lies outside beyond its err,
    negative where all lies inside."""

    name: str
    n: int
    inside: int
    err_p50_ns: float | None
    worst_ns: int | None
    verdict: Verdict


def paired(name: str, figure: str, a: LongArray, b: LongArray, err_ns: int | None) -> PairedFigure:
    """The figure from both sides' values, pair by pair; with `err_ns` their medians are judged."""
    delta = b - a
    middle = median(delta)
    verdict: Verdict = "not judged"
    if err_ns is not None and middle is not None:
        verdict = "agrees" if abs(middle) <= err_ns else "differs"
    within = None if err_ns is None or not len(delta) else int((np.abs(delta) <= err_ns).sum())
    reason = "" if len(delta) else "not recorded on both sides"
    return PairedFigure(
        name, figure, len(delta), median(a), median(b), middle, quantile(delta, 10), quantile(delta, 90),
        err_ns, within, verdict, reason,
    )


def step_figures(pairs: StepPairs, a: Process, b: Process, err_ns: int | None) -> list[PairedFigure]:
    """Length and period of the steps."""
    sides = [(a.rows("steps"), pairs.a), (b.rows("steps"), pairs.b)]
    length = [_minus(rows.ints("end_ns"), rows.ints("start_ns"), chosen) for rows, chosen in sides]
    period = [_taken(rows.ints("period_ns"), chosen) for rows, chosen in sides]
    return [_judged("step", "length", length, err_ns), _judged("step", "period", period, err_ns)]


def phase_figures(pairs: StepPairs, a: Process, b: Process, err_ns: int | None) -> list[PairedFigure]:
    """Host time of each phase that both have, and the time that its device work kept the device busy."""
    found = []
    for name in PHASES:
        for figure in ("host_ns", "busy_ns"):
            sides = [
                _by_step(process, name, figure, rows) for process, rows in ((a, pairs.a), (b, pairs.b))
            ]  # fmt: skip
            if any(valid.any() for _, valid in sides):
                judged = err_ns if figure == "host_ns" else None
                found.append(_judged(name, figure, sides, judged))
    return found


def contained(pairs: StepPairs, spans: Process, work: Process, offset_ns: int, clock_err_ns: int) -> list[Containment]:
    """Whether the work that a capture saw lies in the spans between events. `spans` is the side that has events;
    `pairs` are its steps first. Times of `work` + offset_ns are those of `spans`."""
    found = []
    for name in PHASES:
        (begin, begun), (length, has_length), (err, has_err) = (
            _by_step(spans, name, column, pairs.a) for column in ("span_start_ns", "span_ns", "err_ns")
        )
        (start, started), (window, has_window) = (
            _by_step(work, name, column, pairs.b) for column in ("span_start_ns", "span_ns")
        )
        known = begun & has_length & has_err & started & has_window
        if known.any():
            early = begin - (start + offset_ns)
            late = (start + offset_ns + window) - (begin + length)
            outside = (np.maximum(early, late) - err - clock_err_ns)[known]
            inside = int((outside <= 0).sum())
            verdict: Verdict = "agrees" if inside == len(outside) else "differs"
            found.append(Containment(name, len(outside), inside, median(err[known]), int(outside.max()), verdict))
    return found


def clock_offset(pairs: StepPairs, a: Process, b: Process) -> tuple[int, int]:
    """(what is added to b's times, how far nine of ten pairs lie from it at most), from the starts of the steps."""
    starts = [_taken(process.rows("steps").ints("start_ns"), rows) for process, rows in ((a, pairs.a), (b, pairs.b))]
    known = starts[0][1] & starts[1][1]
    gap = (starts[0][0] - starts[1][0])[known]
    middle = int(np.sort(gap)[len(gap) // 2])
    return middle, int(quantile(np.abs(gap - middle), 90) or 0)


_Known = tuple[LongArray, BoolArray]


def _judged(name: str, figure: str, sides: list[_Known], err_ns: int | None) -> PairedFigure:
    known = sides[0][1] & sides[1][1]
    return paired(name, figure, sides[0][0][known], sides[1][0][known], err_ns)


def _taken(column: _Known, rows: LongArray) -> _Known:
    return column[0][rows], column[1][rows]


def _minus(end: _Known, start: _Known, rows: LongArray) -> _Known:
    return (end[0] - start[0])[rows], (end[1] & start[1])[rows]


def _by_step(process: Process, name: str, column: str, rows: LongArray) -> _Known:
    """A phase's value in each of the steps in `rows`: times of several uses are added up, the first start counts; null
    where one of several times is."""
    numbers = process.rows("steps").ints("step")[0][rows]
    phases: Columns = process.rows("phases")
    phases = phases[phases.matches("name", name)]
    (steps, _), (values, valid) = phases.ints("step"), phases.ints(column)
    order = np.argsort(numbers)
    place = np.searchsorted(numbers[order], steps)
    found = place < len(numbers)
    found &= np.where(found, numbers[order][np.minimum(place, len(numbers) - 1)] == steps, False)
    known, lacking = np.zeros((2, len(numbers)), dtype=np.bool_)
    lacking[order[place[found & ~valid]]] = True
    found &= valid
    target = order[place[found]]
    known[target] = True
    out = np.zeros(len(numbers), dtype=np.int64)
    if column in ("span_start_ns", "err_ns"):
        out[target[::-1]] = values[found][::-1]
    else:
        np.add.at(out, target, values[found])
        known &= ~lacking
    return out, known
