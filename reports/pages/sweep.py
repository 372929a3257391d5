"""The page of a sweep."""

from __future__ import annotations

import pandas as pd

from ...analysis.exposure import exposure
from ...analysis.replay import replays
from ..document import Block, Cell, Chart, Document, Facts, Missing, Quantity, Section, Table, Words
from ..formatting import count
from ..views.axes import short, values_of
from ..views.steps import gather_timelines
from ..views.sweep import SweepView
from .environment import environment_items
from .order_words import order_words
from .sweep_charts import cloud_chart, heat_chart, lines_chart
from .sweep_headline import sweep_headline
from .sweep_tables import arms, arms_table, failures_table, points_table, reasons_table
from .sweep_turns import turns_sections
from .timeline import label, timeline_chart


def sweep_document(sweep: SweepView) -> Document:
    """All sections: answers, charts, arms, timelines, the points, what is missing, where it comes from."""
    paired = arms(sweep)
    sections = [
        *turns_sections(sweep), sweep_headline(sweep, paired),
        _charts("exposure", "Exposure and overlap", "Exposure", heat_chart(sweep), cloud_chart(sweep)),
        _charts("metrics", "Parameters against metrics", "Metrics", lines_chart(sweep)),
        _arms(sweep, paired),
        _timelines(sweep),
        _tables("points", "Every point", "Points", points_table(sweep)),
        _tables("failures", "Failed and skipped points", "Failures", failures_table(sweep)),
        _environment(sweep),
        _tables("diagnostics", "What was not measured", "Not measured", reasons_table(sweep), brief=False),
    ]
    there = tuple(section for section in sections if section is not None)
    return Document(sweep.name, _subtitle(sweep), there, sweep.origin, _notice(sweep))


def _subtitle(sweep: SweepView) -> str:
    statuses = {status: sum(point.status == status for point in sweep.points) for status in ("failed", "skipped")}
    parts = [f"sweep of {count(len(sweep.points))} points", f"{count(len(sweep.measured))} measured"]
    parts += [f"{number} {status}" for status, number in statuses.items() if number]
    varied = ", ".join(short(name) for name in sweep.varying)
    return ", ".join(parts) + (f"; varied: {varied}" if varied else "")


def _notice(sweep: SweepView) -> str:
    if not sweep.origin:
        return ""
    described = "; ".join(sorted({point.calibration for point in sweep.points if point.calibration}))
    return (
        f"Device times come from the queue model with costs of the calibration {described}; host times are measured on"
        " this machine. Compare this with nothing but its own kind."
    )


def _charts(id_: str, title: str, nav: str, *charts: Chart | None) -> Section | None:
    blocks: tuple[Block, ...] = tuple(chart for chart in charts if chart is not None)
    return Section(id_, title, blocks, nav=nav) if blocks else None


def _arms(sweep: SweepView, paired: pd.DataFrame) -> Section | None:
    """Commit orders side by side, in words and in figures."""
    table = arms_table(sweep, paired)
    if table is None:
        return None
    return Section(
        "arms", "Commit orders: first, last, skip", (*order_words(paired, sweep.varying), table), True, "Commit orders"
    )


def _tables(id_: str, title: str, nav: str, table: Table | None, *, brief: bool = True) -> Section | None:
    return Section(id_, title, (table,), brief, nav) if table is not None else None


def _timelines(sweep: SweepView) -> Section | None:
    lines = []
    for name, recording in sweep.representatives:
        replayed = replays(recording)
        found = gather_timelines(replayed, exposure(replayed).steps)
        lines += [(f"{name}: {label(line)}", line) for line in found]
    if not lines:
        return None
    chart = timeline_chart(tuple(lines), "timelines", sweep.origin)
    return Section("timelines", "Timelines of chosen points", (chart,), nav="Timelines")


def _environment(sweep: SweepView) -> Section:
    varied: tuple[tuple[str, Cell], ...] = tuple(
        (name, ", ".join(values_of(sweep.points, name))) for name in sweep.varying
    )
    constant: tuple[tuple[str, Cell], ...] = tuple(
        (name, sweep.points[0].value(name)) for point in sweep.points[:1] for name in point.parameters
        if name not in sweep.varying
    )
    blocks: list[Block] = [
        Facts("Points", (("points", Quantity(len(sweep.points), "count")), *varied)),
        Facts("Machine", environment_items(sweep.environment)),
    ]
    if constant:
        blocks.append(Facts("The same in every point", constant))
    if sweep.origin:
        calibrations = sorted({point.calibration for point in sweep.points if point.calibration})
        named = tuple((f"calibration {i}", text) for i, text in enumerate(calibrations, 1))
        blocks.append(Facts("Calibration of the modelled device", named or (("calibration", Missing("not named")),)))
    blocks += [Words(note) for note in sweep.notes]
    return Section("environment", "Environment and parameters", tuple(blocks), nav="Environment")
