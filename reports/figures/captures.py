"""Charts of a capture: where each device's window went, what the host did in its gaps, and the steps one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...analysis.captures.devices import DeviceFigures
from ...analysis.captures.gaps import GapFigures
from ..document import Figure
from . import palette
from .phases import Share, shares_figure

IDLE = "#dfe4ec"
_MOST = 7


def windows_figure(devices: Sequence[tuple[str, DeviceFigures]]) -> Figure:
    """A bar a device: kernels, then copies and memsets that lie under none, then nothing. None where idle is null."""
    shares = []
    for name, own in devices:
        if own.memory_alone_ns is None or own.idle_ns is None:
            continue
        parts = (
            ("kernels", own.kernel_union_ns or 0, palette.FORWARD),
            ("copies and memsets alone", own.memory_alone_ns, palette.COPY), ("idle", own.idle_ns, IDLE),
        )  # fmt: skip
        shares += [Share(name, part, ns, ns / own.window_ns, colour) for part, ns, colour in parts if ns]
    return shares_figure(shares, "time of the window [µs]", "of the window")


def gaps_figure(gaps: Sequence[tuple[str, GapFigures]]) -> Figure:
    """A bar a device: its idle time by what the launching thread was in, the same thing in the same colour."""
    names = list(dict.fromkeys(share.name for _, own in gaps for share in own.host[:_MOST]))
    colours = {name: palette.SERIES[place % len(palette.SERIES)] for place, name in enumerate(names)}
    shares = []
    for device, own in gaps:
        for share in own.host[:_MOST]:
            colour = colours[share.name] if share.name else IDLE
            shares.append(Share(device, share.name or "nothing recorded", share.idle_ns, share.share, colour))
        rest = sum(share.idle_ns for share in own.host[_MOST:])
        if rest:
            shares.append(Share(device, "the rest", rest, rest / own.idle_ns, palette.BETWEEN))
    return shares_figure(shares, "idle time [µs]", "of the idle time")


def host_steps_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Bars of host time a step, for captures without device work."""
    lengths = [own["end_ns"] - own["start_ns"] for own in rows]
    bars = {
        "type": "bar", "x": [str(own["step"]) for own in rows], "y": palette.microseconds(lengths),
        "marker": {"color": palette.PREPROCESS}, "hovertemplate": "step %{x}<br>%{y} µs<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "step"}, "type": "category", "nticks": 20},
        "yaxis": {"title": {"text": "time [µs]"}, "rangemode": "tozero"},
    }
    return Figure((bars,), layout, height_px=280)


def steps_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Bars of device time a step, busy and idle within the step's own work; the step's period as points."""
    steps = [str(row["step"]) for row in rows]
    hover = "step %{x}<br>%{fullData.name} %{y} µs<extra></extra>"
    traces: list[dict[str, Any]] = [
        {
            "type": "bar", "name": name, "x": steps, "y": palette.microseconds([row[column] for row in rows]),
            "marker": {"color": colour}, "hovertemplate": hover,
        }
        for name, column, colour in (("busy", "busy_ns", palette.FORWARD), ("idle", "idle_ns", IDLE))
    ]
    traces.append({
        "type": "scatter", "mode": "markers", "name": "period", "x": steps, "marker": {"color": "#1d2433", "size": 5},
        "y": palette.microseconds([row["period_ns"] for row in rows]), "hovertemplate": hover,
    })
    layout = {
        "barmode": "stack", "xaxis": {"title": {"text": "step"}, "type": "category", "nticks": 20},
        "yaxis": {"title": {"text": "time [µs]"}, "rangemode": "tozero"},
    }
    return Figure(tuple(traces), layout, height_px=320)
