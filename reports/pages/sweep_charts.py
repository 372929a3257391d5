"""The sweep's parameters against its metrics, as heat maps, lines and one scatter of all points."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.pace import PACE, PERIOD
from ..document import Chart, Figure, Quantity
from ..figures.sweep import Cloud, HeatMap, Line, LinePanel, cloud_figure, heat_figure, lines_figure
from ..formatting import quantity
from ..metrics import plot_scale, plot_title, unit_of
from ..views.axes import Axes, axes_of, mean_metric, short, values_of
from ..views.sweep import SweepPoint, SweepView

HEAT_METRICS = ("exposed_p50_ns", "exposed_step_ns", "hidden_p50_ns", "build_overlap_fraction")
LINE_METRICS = (
    PERIOD, PACE, "preprocess_p50_ns", "table_copy_p50_ns", "exposed_p50_ns", "hidden_p50_ns",
    "exposed_step_ns", "idle_before_forward_p50_ns", "padding_token_share", "padding_time_mean_ns",
)
Facet = tuple[str, list[SweepPoint]]


def heat_chart(sweep: SweepView) -> Chart | None:
    """Exposure and overlap against rows and table width; None where the sweep varies no two such parameters."""
    axes = axes_of(sweep)
    if axes.x is None or axes.y is None:
        return None
    choices = tuple(
        (f"{plot_title(metric)}{name}", _heat(sweep, points, axes, metric))
        for metric in _best_known(sweep) for name, points in _facets(sweep, axes) if _has(points, metric)
    )
    if not choices:
        return None
    title = f"Exposure and overlap against {short(axes.x)} and {short(axes.y)}"
    hint = "Choose figure, regime and mode in the list. Empty cells were not measured; the tables below say why."
    return Chart("heat", title, choices, "", sweep.origin, hint)


def _best_known(sweep: SweepView) -> list[str]:
    """What most points have comes first: a map of empty cells is a poor first sight."""
    def missing(metric: str) -> int:
        return sum(point.metrics.get(metric) is None for point in sweep.measured)

    return sorted(HEAT_METRICS, key=missing)


def lines_chart(sweep: SweepView) -> Chart | None:
    """Small multiples of the main metrics; None where nothing varies or nothing was measured."""
    axes = axes_of(sweep)
    if axes.x is None:
        return None
    choices = tuple(
        (name.removeprefix(": ") or "all points", _lines(sweep, points, axes))
        for name, points in _facets(sweep, axes) if any(_has(points, metric) for metric in LINE_METRICS)
    )
    if not choices:
        return None
    by = " and ".join(short(name) for name in (axes.series, axes.y) if name)
    title = f"Metrics against {short(axes.x)}{f', one line for each {by}' if by else ''}"
    return Chart("lines", title, choices, "", sweep.origin)


def cloud_chart(sweep: SweepView) -> Chart | None:
    """Exposed time against the copy's length, every point; None where no point has both."""
    series = axes_of(sweep).series
    points = [p for p in sweep.measured if _both(p)]
    if not points:
        return None
    clouds = [
        _cloud(sweep, name, [point for point in points if series is None or point.value(series) == name])
        for name in values_of(sweep.points, series)
    ]
    clouds = [cloud for cloud in clouds if cloud.copy_ns]
    hint = "On the dotted line the whole copy is exposed; at the bottom all of it is hidden."
    title = "Exposed part of the block-table copy against its length, every point [µs]"
    return Chart("cloud", title, (("cloud", cloud_figure(clouds)),), "", sweep.origin, hint)


def _both(point: SweepPoint) -> bool:
    return None not in (point.metrics.get("exposed_p50_ns"), point.metrics.get("table_copy_p50_ns"))


def _cloud(sweep: SweepView, name: str, points: list[SweepPoint]) -> Cloud:
    texts = ["<br>".join(f"{short(p)} {point.value(p)}" for p in sweep.varying) for point in points]
    copies = [float(point.metrics["table_copy_p50_ns"] or 0) for point in points]
    exposed = [float(point.metrics["exposed_p50_ns"] or 0) for point in points]
    return Cloud(name if name != "-" else "points", tuple(copies), tuple(exposed), tuple(texts))


def _facets(sweep: SweepView, axes: Axes) -> list[Facet]:
    """(": regime steady, graph mode none", its measured points) for each combination that has points.

    In the order of the axes' values. Only combinations that points have are looked at: a sweep of many specs has axes
    by the dozen, and their product has no end.
    """
    values = [values_of(sweep.measured, name) for name in axes.facets]
    ranks = [{value: rank for rank, value in enumerate(of_axis)} for of_axis in values]
    groups: dict[tuple[int, ...], list[SweepPoint]] = {}
    for point in sweep.measured:
        place = tuple(rank[point.value(name)] for rank, name in zip(ranks, axes.facets, strict=True))
        groups.setdefault(place, []).append(point)
    return [(_facet_name(axes.facets, values, place), groups[place]) for place in sorted(groups)]


def _facet_name(names: Sequence[str], values: Sequence[Sequence[str]], place: Sequence[int]) -> str:
    label = ", ".join(
        f"{short(name)} {of_axis[at]}" for name, of_axis, at in zip(names, values, place, strict=True)
    )
    return f": {label}" if label else ""


def _has(points: list[SweepPoint], metric: str) -> bool:
    return any(point.metrics.get(metric) is not None for point in points)


def _at(points: list[SweepPoint], **chosen: str) -> list[SweepPoint]:
    return [point for point in points if all(point.value(name) == value for name, value in chosen.items())]


def _heat(sweep: SweepView, points: list[SweepPoint], axes: Axes, metric: str) -> Figure:
    assert axes.x is not None
    assert axes.y is not None
    # All points of the sweep make the axes, also those that failed: every chart of the list has the same ones.
    xs, ys = values_of(sweep.points, axes.y), values_of(sweep.points, axes.x)
    maps = []
    for series in values_of(sweep.points, axes.series):
        mine = points if axes.series is None else _at(points, **{axes.series: series})
        means = [[mean_metric(_at(mine, **{axes.y: x, axes.x: y}), metric) for x in xs] for y in ys]
        heading = "" if axes.series is None else f"{short(axes.series)} {series}"
        maps.append(HeatMap(
            heading, xs, ys, tuple(tuple(plot_scale(metric, value) for value in line) for line in means),
            tuple(tuple(_cell_text(metric, value) for value in line) for line in means),
        ))
    known = [heat for heat in maps if any(value is not None for line in heat.values for value in line)]
    return heat_figure(known or maps, short(axes.y), short(axes.x), plot_title(metric))


def _cell_text(metric: str, value: float | None) -> str:
    return "not measured" if value is None else quantity(Quantity(round(value, 4), unit_of(metric)))


def _lines(sweep: SweepView, points: list[SweepPoint], axes: Axes) -> Figure:
    assert axes.x is not None
    panels = []
    for metric in LINE_METRICS if sweep.paced else [metric for metric in LINE_METRICS if metric != PACE]:
        lines = [line for line in _metric_lines(sweep, points, axes, metric) if any(v is not None for v in line.values)]
        if lines:
            panels.append(LinePanel(plot_title(metric), tuple(lines)))
    return lines_figure(panels, short(axes.x))


def _metric_lines(sweep: SweepView, points: list[SweepPoint], axes: Axes, metric: str) -> list[Line]:
    assert axes.x is not None
    xs = values_of(sweep.points, axes.x)
    lines = []
    for colour, series in enumerate(values_of(sweep.points, axes.series)):
        for dash, width in enumerate(values_of(sweep.points, axes.y)):
            chosen = {n: v for n, v in ((axes.series, series), (axes.y, width)) if n is not None}
            name = ", ".join(f"{short(n)} {v}" for n, v in chosen.items()) or "all"
            means = (mean_metric(_at(points, **chosen, **{axes.x: x}), metric) for x in xs)
            lines.append(Line(name, xs, tuple(plot_scale(metric, mean) for mean in means), colour, dash))
    return lines
