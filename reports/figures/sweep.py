"""A sweep's parameters against its metrics: heat maps over two parameters, lines over one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..document import Figure
from . import palette
from .panels import Panel, panels

_WHITE_TO_RED = ((0.0, "#f4f1fb"), (0.35, "#c9b2ea"), (0.7, "#a4479f"), (1.0, palette.OVERLAP))
_DASHES = ("solid", "dot", "dash", "dashdot")


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One panel: `values[i][j]` and its text belong to ys[i], xs[j]; None where nothing was measured."""

    heading: str
    xs: tuple[str, ...]
    ys: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    texts: tuple[tuple[str, ...], ...]


def heat_figure(maps: Sequence[HeatMap], x_title: str, y_title: str, value_title: str) -> Figure:
    """Heat maps side by side on one colour scale that begins at 0, with the value written into each cell."""
    places, height_px = panels(len(maps), columns=4)
    known = [v for m in maps for line in m.values for v in line if v is not None]
    top = max([1.0, *known])
    bottom = min([0.0, *known])
    pairs = enumerate(zip(maps, places, strict=True))
    traces = [_heat(heat, place, (bottom, top), value_title, scale=i == 0) for i, (heat, place) in pairs]
    layout: dict[str, Any] = {"annotations": [p.heading(m.heading) for m, p in zip(maps, places, strict=True)]}
    for index, place in enumerate(places):
        layout |= place.axes(x_title, y_title if index % 4 == 0 else "", type="category")
        if index % 4 and maps[index].ys == maps[index - index % 4].ys:
            layout[place.yaxis]["showticklabels"] = False  # on a narrow page they run into the panel before
    layout["margin"] = {"l": 70, "r": 90, "t": 34, "b": 50}
    return Figure(tuple(traces), layout, height_px)


def _heat(
    heat: HeatMap, panel: Panel, limits: tuple[float, float], value_title: str, *, scale: bool,
) -> dict[str, Any]:
    return {
        "type": "heatmap", "x": heat.xs, "y": heat.ys, "z": heat.values, "text": heat.texts, "texttemplate": "%{text}",
        "xaxis": panel.x, "yaxis": panel.y, "zmin": limits[0], "zmax": limits[1], "colorscale": _WHITE_TO_RED,
        "showscale": scale, "colorbar": {
            "title": {"text": value_title, "side": "right"}, "thickness": 12, "exponentformat": "none",
            "separatethousands": True,
        },
        "xgap": 3, "ygap": 3, "hoverongaps": False,
        "hovertemplate": f"{heat.heading}<br>%{{y}} rows, width %{{x}}<br>%{{text}}<extra></extra>",
    }


@dataclass(frozen=True, slots=True)
class Line:
    """A named series of one panel. `colour` and `dash` are indices: the same index looks the same in every panel."""

    name: str
    xs: tuple[str, ...]
    values: tuple[float | None, ...]
    colour: int
    dash: int = 0


@dataclass(frozen=True, slots=True)
class LinePanel:
    """One metric: its heading with unit, and a line for each series."""

    heading: str
    lines: tuple[Line, ...]


def lines_figure(metrics: Sequence[LinePanel], x_title: str) -> Figure:
    """One panel a metric, one line a series, legend shared."""
    places, height_px = panels(len(metrics), columns=3)
    traces = []
    seen: set[str] = set()
    for metric, place in zip(metrics, places, strict=True):
        for line in metric.lines:
            traces.append(_line(line, place, legend=line.name not in seen))
            seen.add(line.name)
    layout: dict[str, Any] = {
        "annotations": [p.heading(m.heading) for m, p in zip(metrics, places, strict=True)],
        "margin": {"l": 60, "r": 16, "t": 70, "b": 50}, "legend": {"orientation": "h", "x": 0, "y": 1 + 34 / height_px,
                                                                    "yanchor": "bottom"},
    }
    for index, place in enumerate(places):
        # Only the last row has axis titles: above another row there is no room between the two, and a heading that is
        # wider than its panel would run into the title next to it.
        layout |= place.axes(x_title if index // 3 == (len(places) - 1) // 3 else "", "")
        layout[place.xaxis]["type"] = "category"
        layout[place.yaxis]["rangemode"] = "tozero"
    return Figure(tuple(traces), layout, height_px + 40)


def _line(line: Line, panel: Panel, *, legend: bool) -> dict[str, Any]:
    colour = palette.SERIES[line.colour % len(palette.SERIES)]
    return {
        "type": "scatter", "mode": "lines+markers", "name": line.name, "legendgroup": line.name, "showlegend": legend,
        "x": line.xs, "y": line.values, "xaxis": panel.x, "yaxis": panel.y,
        "line": {"color": colour, "width": 2, "dash": _DASHES[line.dash % len(_DASHES)]}, "marker": {"color": colour},
        "hovertemplate": f"{line.name}<br>%{{x}}: %{{y}}<extra></extra>",
    }


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points of one colour: length of the copy and its exposed part in ns, with a hover text each."""

    name: str
    copy_ns: tuple[float, ...]
    exposed_ns: tuple[float, ...]
    texts: tuple[str, ...]


def cloud_figure(clouds: Sequence[Cloud]) -> Figure:
    """Scatter of exposed against copy time, with the line on which all of the copy is exposed."""
    top = max((value for cloud in clouds for value in (*cloud.copy_ns, *cloud.exposed_ns)), default=1.0) / 1_000
    traces: list[dict[str, Any]] = [{
        "type": "scatter", "mode": "lines", "x": [0, top], "y": [0, top], "name": "all of it exposed",
        "line": {"color": palette.BETWEEN, "dash": "dot", "width": 1.5}, "hoverinfo": "skip",
    }]
    symbols = ("circle", "diamond", "square", "triangle-up", "cross")
    for index, cloud in enumerate(clouds):
        colour = palette.SERIES[index % len(palette.SERIES)]
        traces.append({
            "type": "scatter", "mode": "markers", "name": cloud.name, "text": cloud.texts, "cliponaxis": False,
            "x": palette.microseconds(cloud.copy_ns), "y": palette.microseconds(cloud.exposed_ns),
            "marker": {"color": palette.translucent(colour, 0.65), "size": 10, "symbol": symbols[index % len(symbols)],
                       "line": {"color": colour, "width": 1}},
            "hovertemplate": "copy %{x} µs, exposed %{y} µs<br>%{text}<extra></extra>",
        })
    layout = {
        "xaxis": {"title": {"text": "length of the copy, p50 [µs]"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "exposed, p50 [µs]"}, "rangemode": "tozero"},
    }
    return Figure(tuple(traces), layout, height_px=400)
