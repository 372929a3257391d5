"""The effects of a gate as a chart: one row a point, the worst above."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...analysis.gate.point import Figures, PointVerdict
from ...analysis.gate.suite import SuiteVerdict
from ...analysis.gate.verdict import Verdict
from ..document import Chart, Figure
from .characters import shortened
from .order import worst_first
from .words import name_of

_DRAWN = 40
_NAME_MAX = 60
_COLOURS = {
    Verdict.FAIL: "#c92a2a", Verdict.ERROR: "#862e9c", Verdict.INCOMPARABLE: "#868e96",
    Verdict.INCONCLUSIVE: "#e08a2e", Verdict.PASS: "#2f9e77",
}  # fmt: skip

Drawn = list[tuple[int, PointVerdict, Figures]]
"""Place on the axis, verdict, its figures (effect and bounds known)."""


def effects_chart(suite: SuiteVerdict) -> Chart | None:
    """The worst effects with their intervals; None where no effect is known."""
    known = [
        (point, point.figures) for point in worst_first(suite)
        if point.figures is not None and None not in (point.figures.effect, point.figures.low, point.figures.high)
    ]  # fmt: skip
    if not known:
        return None
    drawn = [(place, *one) for place, one in enumerate(known[:_DRAWN][::-1])]
    words = "Each effect with its two-sided 90 % interval; the small bar is the least effect that may be called one."
    if len(known) > len(drawn):
        words += f" {len(known) - len(drawn)} of {len(known)} are not drawn; the table has them."
    return Chart("effects", "How much slower head is than base", (("", _figure(drawn)),), words)


def _figure(drawn: Drawn) -> Figure:
    data = [_of_verdict(verdict, [one for one in drawn if one[1].verdict is verdict]) for verdict in _COLOURS]
    least = [(place, found.least_effect) for place, _, found in drawn if found.least_effect is not None]
    data.append({
        "type": "scatter", "mode": "markers", "name": "least effect", "x": [100 * value for _, value in least],
        "y": [place for place, _ in least], "hoverinfo": "x",
        "marker": {"symbol": "line-ns", "size": 12, "line": {"width": 2, "color": "#495057"}},
    })  # fmt: skip
    names = [shortened(name_of(point), _NAME_MAX) for _, point, _ in drawn]
    layout = {
        "yaxis": {"tickvals": list(range(len(drawn))), "ticktext": [_plain(name) for name in names],
                  "automargin": True},
        "xaxis": {"title": {"text": "head against base [%]"}, "zeroline": True},
        "hovermode": "closest",
    }  # fmt: skip
    return Figure(tuple(trace for trace in data if trace["x"]), layout, height_px=130 + 24 * len(drawn))


def _of_verdict(verdict: Verdict, own: Drawn) -> Mapping[str, Any]:
    percent = [[100 * float(value or 0.0) for value in (found.low, found.effect, found.high)] for _, _, found in own]
    return {
        "type": "scatter", "mode": "markers", "name": verdict.value, "x": [effect for _, effect, _ in percent],
        "y": [place for place, _, _ in own], "marker": {"color": _COLOURS[verdict], "size": 8},
        "error_x": {
            "type": "data", "symmetric": False, "color": _COLOURS[verdict],
            "array": [high - effect for _, effect, high in percent],
            "arrayminus": [effect - low for low, effect, _ in percent],
        },
        "text": [_plain(name_of(point)) for _, point, _ in own], "hoverinfo": "text+x",
    }  # fmt: skip


def _plain(text: str) -> str:
    """Plotly reads a little HTML in its labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
