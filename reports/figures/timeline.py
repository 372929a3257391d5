"""A step's timeline: one row a lane, µs since the step began, the time of copy ∩ build_indices shaded."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ...analysis.table_copies import brings_tables
from ..document import Figure
from ..formatting import duration
from ..views.timeline import Bar, StepTimeline
from . import palette

_ROW_PX = 44
_ROLES = {
    "phase": "phase", "range": "sub-range", "call": "host call", "wait": "host wait", "copy": "copy",
    "kernel": "device work",
}
_FOREIGN = "device, other step"
_COLOURS = {
    "phase": palette.OTHER_PHASE, "call": palette.LAUNCH, "wait": palette.WAIT, "kernel": palette.DEVICE,
}
"""Of what belongs to none of our phases."""


def timeline_figure(timeline: StepTimeline, since: str | None = None) -> Figure:
    """Horizontal bars, one trace for each entry of the legend, which can switch it off. Times count from `since`, which
    is the start of the step unless it says else."""
    groups: dict[str, list[Bar]] = defaultdict(list)
    for bar in timeline.bars:
        groups[_entry(bar)].append(bar)
    entries = (*palette.PHASE_COLOURS, *_ROLES.values(), _FOREIGN)
    traces = [_trace(entry, groups[entry], timeline) for entry in entries if groups[entry]]
    if timeline.overlaps:
        traces.append(_overlap_legend())
    rows = list(timeline.rows)
    title = f"time since {since or f'the start of step {timeline.step}'} [µs]"
    layout: dict[str, Any] = {
        "barmode": "overlay", "shapes": [_shade(timeline, *overlap) for overlap in timeline.overlaps or ()],
        "uniformtext": {"mode": "hide", "minsize": 9}, "hovermode": "closest",
        "xaxis": {"title": {"text": title}, "rangemode": "tozero"},
        "yaxis": {"categoryorder": "array", "categoryarray": rows[::-1], "range": [-0.6, len(rows) - 0.4]},
    }
    return Figure(tuple(traces), layout, height_px=120 + _ROW_PX * max(3, len(rows)))


def _entry(bar: Bar) -> str:
    """What the legend calls a bar: its phase where it has that one's colour, else what kind of thing it is."""
    if not bar.own:
        return _FOREIGN
    return _phase(bar) or _ROLES[bar.role]


def _phase(bar: Bar) -> str:
    """The phase that the bar is, or that it belongs to and is coloured by; "" for none."""
    name = bar.name if bar.role == "phase" else bar.phase
    return name if name in palette.PHASE_COLOURS and bar.role in ("phase", "range", "kernel") else ""


def _trace(entry: str, bars: list[Bar], timeline: StepTimeline) -> dict[str, Any]:
    return {
        "type": "bar", "orientation": "h", "name": entry, "width": 0.72,
        "base": [_us(bar.start_ns - timeline.start_ns) for bar in bars],
        "x": [_us(bar.end_ns - bar.start_ns) for bar in bars],
        "y": [bar.row for bar in bars],
        "text": [bar.name for bar in bars], "textposition": "inside", "insidetextanchor": "middle",
        "hovertext": [_hover(bar, timeline.start_ns) for bar in bars], "hoverinfo": "text",
        "marker": {"color": [_colour(bar) for bar in bars], "line": {"color": "#ffffff", "width": 0.5}},
        "constraintext": "inside", "textangle": 0,
    }


def _hover(bar: Bar, origin_ns: int) -> str:
    window = f"{_us(bar.start_ns - origin_ns)} to {_us(bar.end_ns - origin_ns)} µs"
    return "<br>".join((f"<b>{bar.name}</b> {duration(bar.end_ns - bar.start_ns)}", window, *bar.detail))


def _colour(bar: Bar) -> str:
    if phase := _phase(bar):
        colour = palette.PHASE_COLOURS[phase]
    elif bar.role == "copy":
        colour = palette.COPY if brings_tables(bar.name) else palette.HIDDEN
    elif bar.role == "range":
        colour = palette.RANGE_COLOURS.get(bar.name, palette.RANGE)
    else:
        colour = _COLOURS[bar.role]
    return colour if bar.own else palette.translucent(colour, 0.3)


def _shade(timeline: StepTimeline, start_ns: int, end_ns: int) -> dict[str, Any]:
    return {
        "type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "x0": _us(start_ns - timeline.start_ns), "x1": _us(end_ns - timeline.start_ns),
        "fillcolor": palette.translucent(palette.OVERLAP, 0.16), "line": {"width": 0},
    }


def _overlap_legend() -> dict[str, Any]:
    """A trace without points: shapes have no legend entry of their own."""
    marker = {"symbol": "square", "size": 11, "color": palette.translucent(palette.OVERLAP, 0.35)}
    return {
        "type": "scatter", "mode": "markers", "x": [None], "y": [None], "hoverinfo": "skip", "showlegend": True,
        "name": "block-table copy beside build_indices", "marker": marker,
    }


def _us(ns: int) -> float:
    """Exact for differences below 2^53 ns (104 days): the subtraction was made in integers."""
    return round(ns / 1_000, 3)
