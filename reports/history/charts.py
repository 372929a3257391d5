"""Series over their results: values, the level of each piece, and the ranges in which steps lie."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from ...analysis.gate.result import unit_of
from ...analysis.history.found import SeriesFound, Step
from ..document import Chart, Figure
from ..gate.characters import readable, shortened
from .view import HistoryView
from .words import commit_name, state_words

_DRAWN = 60
_TIMES = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
"""Times are drawn in ms."""
_NAME = 70
_GREY, _LEVEL, _WORSE, _BETTER = "#6b7a90", "#3a7fc2", "#d6336c", "#2f9e77"


def series_chart(view: HistoryView) -> Chart | None:
    """The series with steps first, then the longest; None where nothing was measured."""
    known = [one for one in view.series if one.measured]
    known.sort(key=lambda one: (-len(one.steps), one.newest is None, -one.measured))
    if not known:
        return None
    choices = tuple((_label(one, view), _figure(one)) for one in known[:_DRAWN])
    words = "Dots are results, lines the levels between steps, bands the commit ranges (red: worse)."
    if len(known) > _DRAWN:
        words += f" {len(known) - _DRAWN} of {len(known)} series are not drawn."
    return Chart("history", "Results over time", choices, words)


def _label(found: SeriesFound, view: HistoryView) -> str:
    name = f"{shortened(readable(found.series.point), _NAME)}, {shortened(readable(found.series.metric), _NAME)}"
    return f"{name} ({state_words(found, view.limits)})" if found.steps else name


def _figure(found: SeriesFound) -> Figure:
    unit = unit_of(found.series.metric)
    scale = _TIMES.get(unit, 1.0)
    places = {id(one): at for at, one in enumerate(found.series.results)}
    names = [_plain(commit_name(one)) for one in found.series.results]
    measured = [
        (at, value * scale) for at, value in enumerate(found.series.values)
        if value is not None and 0 <= value < math.inf
    ]  # fmt: skip
    data: list[dict[str, Any]] = [{
        "type": "scatter", "mode": "markers", "name": "result", "x": [at for at, _ in measured],
        "y": [value for _, value in measured], "text": [names[at] for at, _ in measured], "hoverinfo": "text+y",
        "marker": {"color": _GREY, "size": 7},
    }]  # fmt: skip
    data += [
        {"type": "scatter", "mode": "lines", "name": "level", "x": [low, high], "y": [level * scale] * 2,
         "line": {"color": _LEVEL, "width": 2}, "showlegend": number == 0, "hoverinfo": "y"}
        for number, (low, high, level) in enumerate(_levels(found, places))
    ]  # fmt: skip
    ticks = range(0, len(names), max(1, len(names) // 12))
    return Figure(tuple(data), {
        "shapes": [_band(step, places) for step in found.steps],
        "xaxis": {"tickvals": list(ticks), "ticktext": [names[at] for at in ticks]},
        "yaxis": {"title": {"text": "ms" if unit in _TIMES else unit}, "rangemode": "normal"},
    })  # fmt: skip


def _levels(found: SeriesFound, places: dict[int, int]) -> list[tuple[int, int, float]]:
    edges = [0, *(places[id(step.likely_after)] for step in found.steps), len(places)]
    values = [step.before for step in found.steps] + ([found.level] if found.level is not None else [])
    return [(low, high - 1, level) for (low, high), level in zip(pairwise(edges), values, strict=False)]


def _band(step: Step, places: dict[int, int]) -> dict[str, Any]:
    return {
        "type": "rect", "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 0}, "opacity": 0.2, "layer": "below",
        "x0": places[id(step.last_good)], "x1": places[id(step.first_bad)],
        "fillcolor": _WORSE if step.slower else _BETTER,
    }  # fmt: skip


def _plain(text: str) -> str:
    """Plotly reads a little HTML in its labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
