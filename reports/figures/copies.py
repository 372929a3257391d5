"""What a copy cost: exposed and hidden parts, their distribution, and their course over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..document import Figure
from ..formatting import duration
from . import palette
from .panels import panels

_MASK_COLOURS = {
    "exposed": palette.OVERLAP, "host work": palette.PREPROCESS, "previous forward": palette.FORWARD,
    "another copy": palette.HIDDEN, "nothing": palette.BETWEEN,
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the mean copy: exposed, or hidden behind `name`."""

    name: str
    mean_ns: float


def split_figure(parts: Sequence[Part]) -> Figure:
    """The mean copy as one bar, cut into what was exposed and what masked the rest."""
    traces = [
        {
            "type": "bar", "orientation": "h", "y": ["mean copy"], "x": palette.microseconds([part.mean_ns]),
            "name": part.name if part.name == "exposed" else f"hidden: {part.name}",
            "marker": {"color": _MASK_COLOURS.get(part.name, palette.LAUNCH)}, "text": [duration(part.mean_ns)],
            "textposition": "inside", "insidetextanchor": "middle", "textangle": 0, "constraintext": "inside",
            "hovertemplate": f"{part.name}: {duration(part.mean_ns)}<extra></extra>",
        }
        for part in parts
    ]
    layout = {
        "barmode": "relative", "uniformtext": {"mode": "hide", "minsize": 10},
        "xaxis": {"title": {"text": "time [µs]"}},
        "legend": {"orientation": "h", "x": 0, "y": 1.05, "yanchor": "bottom", "traceorder": "normal"},
    }
    return Figure(tuple(traces), layout, height_px=170)


@dataclass(frozen=True, slots=True)
class CopyPoints:
    """A value of each copy (or of the kept ones): parallel sequences, times in ns, None where not measured."""

    steps: Sequence[int | None]
    copy_ns: Sequence[int | None]
    exposed_ns: Sequence[int | None]
    overlap_ns: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Bin:
    """How many copies had an exposure from `low_ns` to `high_ns`; equal where all exposures are."""

    low_ns: float
    high_ns: float
    copies: int


def course_figure(points: CopyPoints, bins: Sequence[Bin] = ()) -> Figure:
    """Left: length, exposed part and overlap of each copy by step. Right, with `bins`: how often which exposure was."""
    (left, *rest), height_px = panels(2 if bins else 1, columns=2)
    series = (
        ("copy time", points.copy_ns, palette.COPY, "circle-open"),
        ("with build_indices", points.overlap_ns, palette.PREPROCESS, "x-thin-open"),
        ("exposed", points.exposed_ns, palette.OVERLAP, "circle"),
    )
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "markers", "name": name, "x": list(points.steps),
            "y": palette.microseconds(values),
            "marker": {"color": colour, "size": 5, "symbol": symbol}, "xaxis": left.x, "yaxis": left.y,
            "hovertemplate": f"step %{{x}}<br>{name} %{{y}} µs<extra></extra>",
        }
        for name, values, colour, symbol in series if any(value is not None for value in values)
    ]
    layout: dict[str, Any] = left.axes("step", "time [µs]")
    layout[left.yaxis]["rangemode"] = "tozero"
    for right in rest:
        layout |= right.axes("exposed [µs]", "copies")
        traces.append({**_bars(bins), "xaxis": right.x, "yaxis": right.y})
        layout[right.xaxis]["type"] = "linear" if len(bins) > 1 else "category"
    return Figure(tuple(traces), layout, height_px)


def _bars(bins: Sequence[Bin]) -> dict[str, Any]:
    """A bar a bin, as wide as it is. Of equal values a bar with that one value for its name: it has no width."""
    common = {"type": "bar", "y": [own.copies for own in bins], "marker": {"color": palette.OVERLAP},
              "showlegend": False}  # fmt: skip
    if len(bins) == 1:
        return {**common, "x": [f"{bins[0].low_ns / 1_000:g}"], "hovertemplate": "%{x} µs: %{y} copies<extra></extra>"}
    said = [f"{duration(own.low_ns)} to {duration(own.high_ns)}: {own.copies} copies" for own in bins]
    return {
        **common, "x": palette.microseconds([(own.low_ns + own.high_ns) / 2 for own in bins]),
        "width": palette.microseconds([own.high_ns - own.low_ns for own in bins]),
        "hoverinfo": "text", "hovertext": said,
    }
