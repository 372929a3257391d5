"""What padding to captured sizes cost, size by size: tokens computed for nothing, and time lost or won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..document import Figure
from . import palette
from .panels import panels


@dataclass(frozen=True, slots=True)
class SizePadding:
    """One captured size: steps that replayed it, their real and padding tokens, time lost to padding in ns or None."""

    label: str
    steps: int
    real_tokens: int
    padding_tokens: int
    waste_ns: float | None


def padding_figure(sizes: Sequence[SizePadding]) -> Figure:
    """Left: tokens by captured size. Right: time waste by captured size; below zero the larger size is the faster."""
    (left, right), height_px = panels(2, columns=2)
    labels = [size.label for size in sizes]
    waste = palette.microseconds([size.waste_ns for size in sizes])
    hover = [f"{size.steps} steps" for size in sizes]
    traces: list[dict[str, Any]] = [
        {
            "type": "bar", "name": name, "x": labels, "y": values, "xaxis": left.x, "yaxis": left.y,
            "marker": {"color": colour}, "customdata": hover,
            "hovertemplate": f"size %{{x}}: %{{y}} {name}<br>%{{customdata}}<extra></extra>",
        }
        for name, values, colour in (
            ("real tokens", [size.real_tokens for size in sizes], palette.FORWARD),
            ("padding tokens", [size.padding_tokens for size in sizes], palette.OVERLAP),
        )
    ]
    layout: dict[str, Any] = left.axes("captured size", "tokens")
    layout |= right.axes("captured size", "time lost to padding [µs]")
    if not any(waste):
        known = any(value is not None for value in waste)
        said = "no time is lost or won at any size" if known else "not measured: see the table"
        layout["annotations"] = [right.message(said)]
        traces.append({"type": "bar", "x": labels, "y": [0] * len(labels), "xaxis": right.x, "yaxis": right.y,
                       "showlegend": False, "hoverinfo": "skip"})
    else:
        colours = [palette.FORWARD if value is not None and value < 0 else palette.SAMPLE for value in waste]
        traces.append({
            "type": "bar", "name": "time lost to padding", "x": labels, "y": waste, "xaxis": right.x, "yaxis": right.y,
            "marker": {"color": colours}, "showlegend": False, "customdata": hover,
            "hovertemplate": "size %{x}: %{y} µs<br>%{customdata}<extra></extra>",
        })
    layout[left.xaxis]["type"] = layout[right.xaxis]["type"] = "category"
    layout["barmode"] = "stack"
    layout[right.yaxis]["rangemode"] = "tozero"
    return Figure(tuple(traces), layout, height_px)
