"""Host phases: shares of the period, over time, and their spread. Device figures are never stacked on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..document import Figure
from ..formatting import duration, percent
from . import palette


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a step: its time and the fraction of its row that it is."""

    row: str
    name: str
    time_ns: float
    fraction: float
    colour: str


def shares_figure(shares: Sequence[Share], x_title: str = "host time a step [µs]", of: str = "a step") -> Figure:
    """One bar a row, cut into its parts; x is time in µs. `of` says what the parts are taken of, in the hover text."""
    rows = list(dict.fromkeys(share.row for share in shares))
    layout = {
        "barmode": "stack", "uniformtext": {"mode": "hide", "minsize": 10},
        "xaxis": {"title": {"text": x_title}},
        "yaxis": {"categoryorder": "array", "categoryarray": rows[::-1]},
    }
    return Figure(tuple(_share_trace(share, of) for share in shares), layout, height_px=90 + 58 * len(rows))


def _share_trace(share: Share, of: str) -> dict[str, Any]:
    return {
        "type": "bar", "orientation": "h", "name": share.name, "showlegend": False,
        "x": palette.microseconds([share.time_ns]), "y": [share.row],
        "marker": {"color": share.colour, "line": {"color": "#fff", "width": 1}},
        "text": [f"{share.name} {percent(share.fraction)}"], "textposition": "inside", "insidetextanchor": "middle",
        "textangle": 0, "constraintext": "inside", "hoverinfo": "text",
        "hovertext": [f"<b>{share.name}</b><br>{duration(share.time_ns)} {of}, {percent(share.fraction)}"],
    }


def phases_over_time_figure(
    steps: Sequence[int], phases: dict[str, list[float | None]], tokens: Sequence[int | None],
    top_us: float | None = None,
) -> Figure:
    """Host time of each phase, stacked, by step; below it the scheduled tokens. Phase times are in µs.

    `top_us` ends the axis below the highest value; None shows all.
    """
    few = len(steps) <= 200
    traces: list[dict[str, Any]] = [
        _phase_trace(name, list(steps), values, few=few)
        for name, values in phases.items() if any(value is not None for value in values)
    ]
    traces.append({
        "type": "scatter", "mode": "lines", "line": {"color": palette.LAUNCH, "width": 1, "shape": "hvh"},
        "name": "scheduled tokens", "x": list(steps), "y": list(tokens), "yaxis": "y2", "showlegend": False,
        "hovertemplate": "step %{x}<br>%{y} tokens<extra></extra>",
    })
    layout: dict[str, Any] = {
        "barmode": "stack", "bargap": 0, "hovermode": "x unified" if few else "closest",
        "xaxis": {"title": {"text": "step"}, "anchor": "y2"},
        "yaxis": {"title": {"text": "host time [µs]"}, "domain": [0.3, 1], "rangemode": "tozero"},
        "yaxis2": {"title": {"text": "tokens"}, "domain": [0, 0.22], "rangemode": "tozero"},
    }
    if top_us is not None:
        layout["yaxis"]["range"] = [0, top_us]
    return Figure(tuple(traces), layout, height_px=440)


def _phase_trace(name: str, steps: list[int], values: list[float | None], *, few: bool) -> dict[str, Any]:
    colour = palette.PHASE_COLOURS.get(name, palette.LAUNCH)
    common = {"name": name, "x": steps, "y": values, "hovertemplate": f"{name}: %{{y}} µs (step %{{x}})<extra></extra>"}
    if few:
        return {"type": "bar", "marker": {"color": colour}, **common}
    return {
        "type": "scatter", "mode": "lines", "stackgroup": "host", "line": {"width": 0, "shape": "hvh"},
        "fillcolor": colour, "marker": {"color": colour}, **common,
    }
