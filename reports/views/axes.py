"""Which parameter of a sweep plays which part in its charts, and points that differ in one parameter only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .sweep import Number, SweepPoint, SweepView

_ROWS = ("num_reqs", "max_num_seqs", "concurrency", "rows")
_WIDTH = ("table_width", "width", "max_model_len")
ORDER = "runner.commit_order"
GRAPH_MODE = "runner.graph_mode"


@dataclass(frozen=True, slots=True)
class Axes:
    """Parts of the varying parameters; None where a sweep varies nothing that fits.

    x       the axis of the line charts and of the heat maps: rows, or the first that varies
    y       the second axis of the heat maps: the table's width
    series  one line each: the commit order
    facets  what is left; each of their combinations has a chart of its own
    """

    x: str | None
    y: str | None
    series: str | None
    facets: tuple[str, ...]


def axes_of(sweep: SweepView) -> Axes:
    """Choose by name; what no name fits takes the free parts in order of appearance."""
    free = list(sweep.varying)
    x = _take(free, _ROWS)
    y = _take(free, _WIDTH)
    series = _take(free, ("commit_order",))
    if x is None:
        x, y = (y, None) if y is not None else (free.pop(0) if free else None, None)
    if series is None and free:
        series = free.pop(0)
    return Axes(x, y, series, tuple(free))


def _take(free: list[str], endings: tuple[str, ...]) -> str | None:
    for ending in endings:
        for name in free:
            if name.rsplit(".", 1)[-1] == ending:
                free.remove(name)
                return name
    return None


def short(parameter: str) -> str:
    """The last part of a dotted path as words: "runner.commit_order" → "commit order"."""
    return parameter.rsplit(".", 1)[-1].replace("_", " ")


def values_of(points: tuple[SweepPoint, ...], parameter: str | None) -> tuple[str, ...]:
    """Distinct values of a parameter: numbers ascending, texts in order of appearance; one "-" where it is None."""
    if parameter is None:
        return ("-",)
    found = list(dict.fromkeys(point.value(parameter) for point in points))
    return tuple(sorted(found, key=float)) if all(_is_number(value) for value in found) else tuple(found)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def mean_metric(points: list[SweepPoint], metric: str) -> float | None:
    """The mean of a metric over the points that have it (repeats of one setting); None where none has it."""
    known = [float(value) for point in points if (value := point.metrics.get(metric)) is not None]
    return sum(known) / len(known) if known else None


def extreme(sweep: SweepView, metric: str, choose: Callable[..., SweepPoint]) -> SweepPoint | None:
    """The measured point with the largest (`max`) or smallest (`min`) value of a metric."""
    known = [point for point in sweep.measured if point.metrics.get(metric) is not None]
    return choose(known, key=lambda point: point.metrics[metric]) if known else None


def number_of(point: SweepPoint, metric: str) -> Number:
    """A metric that is known to be there."""
    value = point.metrics[metric]
    assert value is not None, f"{point.id} has no {metric}"
    return value


def setting(sweep: SweepView, point: SweepPoint) -> str:
    """What sets the point apart: "num reqs 256, table width 8192, commit order last"."""
    return ", ".join(f"{short(name)} {point.value(name)}" for name in sweep.varying) or point.id
