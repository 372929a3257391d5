"""Finds the steps of one series: of times by a statistical test, of counts exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from .found import Newest, SeriesFound, State, Step
from .limits import StepLimits
from .proposals import Propose
from .series import Series
from .split import Floats, Split
from .steps import find_steps, likeness, newest, spread_of

_VARYING = 5
"""A count that changes more often than once in so many results varies from run to run, and has no steps."""


def judge_series(series: Series, propose: Propose, limits: StepLimits, *, exact: bool) -> SeriesFound:
    """The steps of `series`. Of an `exact` metric, a count, each change is one and 0 is a value; times are above 0."""
    places = [at for at, value in enumerate(series.values) if _usable(value, exact)]
    holes = len(series.values) - len(places)
    values = np.array([series.values[at] for at in places], dtype=np.float64)
    if not places:
        return SeriesFound(series, State.NOT_MEASURED, 0, holes)
    level = float(np.median(values))
    if len(places) < limits.min_results:
        return SeriesFound(series, State.TOO_SHORT, len(places), holes, level=level)
    if exact:
        return _counted(series, places, values, holes)
    if not np.ptp(values) > 0:
        return SeriesFound(series, State.NO_VARIATION, len(places), holes, level=level)
    return _timed(series, places, values, propose, limits)


def _usable(value: float | None, exact: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or (exact and value == 0))


def _counted(series: Series, places: Sequence[int], values: Floats, holes: int) -> SeriesFound:
    changes = [int(at) + 1 for at in np.flatnonzero(np.diff(values))]
    if len(changes) * _VARYING > len(values):
        return SeriesFound(series, State.VARIES, len(values), holes, level=float(np.median(values)))
    edges = [0, *changes, len(values)]
    steps = tuple(
        _step(series, places, values, Split(place, place, place, 0.0, math.nan), (edges[at], edges[at + 2]))
        for at, place in enumerate(changes)
    )
    state = State.STEPS if steps else State.NO_STEP
    return SeriesFound(series, state, len(values), holes, steps, level=float(values[-1]))


def _timed(series: Series, places: Sequence[int], values: Floats, propose: Propose, limits: StepLimits) -> SeriesFound:
    logs = np.log(values)
    found = find_steps(logs, propose, limits)
    borders = [split.place for split in found]
    edges = [0, *borders, len(values)]
    steps = tuple(
        _step(series, places, values, split, (edges[at], edges[at + 2])) for at, split in enumerate(found)
    )
    pieces = [piece - piece.mean() for piece in np.split(logs, borders)]
    noise = math.sqrt(sum(float((piece**2).sum()) for piece in pieces) / max(1, len(logs) - len(pieces)))
    last = logs[edges[-2]:]
    late = newest(last, limits)
    return SeriesFound(
        series, State.STEPS if steps else State.NO_STEP, len(values), len(series.values) - len(values), steps,
        noise=noise, likeness=likeness(logs, borders),
        detectable=_detectable(noise * math.sqrt(spread_of(logs, borders)), len(last), limits),
        level=float(np.median(values[edges[-2]:])),
        newest=None if late is None else Newest(
            late[0], math.expm1(late[1]), series.results[places[len(values) - late[0]]]
        ),
    )  # fmt: skip


def _detectable(noise: float, count: int, limits: StepLimits) -> float:
    """The least effect that `min_segment` new results would show against `count` old ones: the critical difference at
    `alpha`, divided by the number of places where a step may lie (Bonferroni).
    """
    num_places = max(1, count - limits.min_segment + 1)
    quantile = -float(stdtrit(max(1, count + limits.min_segment - 2), limits.alpha / 2 / num_places))
    return max(limits.min_effect, math.expm1(quantile * noise * math.sqrt(1 / limits.min_segment + 1 / count)))


def _step(series: Series, places: Sequence[int], values: Floats, split: Split, edges: tuple[int, int]) -> Step:
    before, after = values[edges[0]:split.place], values[split.place:edges[1]]
    low, high = float(np.median(before)), float(np.median(after))
    good, bad = places[split.earliest - 1], places[split.latest]
    names = dict.fromkeys(one.name for one in series.results[good + 1:bad + 1])
    return Step(
        series.results[good], series.results[bad], series.results[places[split.place - 1]],
        series.results[places[split.place]], tuple(names), low, high, high / low - 1 if low > 0 else None,
        None if math.isnan(split.p) else split.p, len(before), len(after),
    )  # fmt: skip
