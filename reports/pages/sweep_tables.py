"""The sweep as tables: commit orders side by side, every point, what failed, and what was not measured."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from ...analysis.arms import ArmPoint, pair_orders
from ...analysis.pace import PACE, PERIOD
from ...analysis.summary import Summary
from ...analysis.tables import ints, plain
from ..document import Cell, Column, Link, Quantity, Row, Table
from ..metrics import cell_of, column_of
from ..views.axes import ORDER, short
from ..views.sweep import SweepView
from .cells import count_column, number, table, us_column

POINT_METRICS = (
    PERIOD, PACE, "preprocess_p50_ns", "table_copy_p50_ns", "exposed_p50_ns", "hidden_p50_ns",
    "padding_time_mean_ns", "forward_p50_ns", "sample_p50_ns", "table_copy_p50_bytes", "exposed_step_ns",
    "build_overlap_fraction", "host_bound_share", "hazards_observed", "hazards_possible", "padding_token_share",
    "graph_hit_share", "accepted_length_mean", "steps_counted",
)
ONLY_WHERE_MEASURED = ("accepted_length_mean",)
"""Of these: no column where no point has the figure."""
_ARM_COLUMNS = (
    ("first_ns", "first"), ("last_ns", "last"), ("skip_ns", "skip"), ("last_minus_first_ns", "last - first"),
    ("first_minus_skip_ns", "first - skip"), ("last_minus_skip_ns", "last - skip"), ("copy_ns", "copy |C|"),
    ("unexplained_ns", "(last - skip) - |C|"), ("exposed_step_ns", "exposed by replay (free copy)"),
    ("commit_step_ns", "first - skip by replay (no copy, no call)"),
)


def arms(sweep: SweepView) -> pd.DataFrame:
    """Commit orders side by side, by what a step takes."""
    points = [
        ArmPoint(
            point.id, point.parameters, Summary(point.metrics, point.reasons), point.repeat,
            point.blocks if point.turns == ORDER else (),  # turns beside another switch's arms say nothing of orders
        )
        for point in sweep.measured
    ]  # fmt: skip
    return pair_orders(points, ORDER)


def arms_table(sweep: SweepView, paired: pd.DataFrame) -> Table | None:
    """first, last and skip with their differences; None where the sweep has no two orders to compare."""
    if not len(paired):
        return None
    known = {name for name, _ in _ARM_COLUMNS}
    shown = [name for name in sweep.varying if name in paired.columns and name not in known]
    rows = []
    for at in range(len(paired)):
        values = {str(name): plain(paired[name].array[at]) for name in paired.columns}
        why = f"an arm of {short(ORDER)} is missing or has no such figure"
        rows.append((
            *(str(values[name]) for name in shown), *(_arm_cell(values, name, why) for name, _ in _ARM_COLUMNS),
        ))
    columns = (*(Column(short(name), numeric=True) for name in shown), *(us_column(title) for _, title in _ARM_COLUMNS))
    launches, in_turns = ints(paired, "launches")
    note = (
        "Median periods by arm. last - first: what committing before index building is worth (hidden by order)."
        " first - skip: what the copy and its call cost, measured. By replay of arm first: once with copies that take"
        " no time but are called for, once with neither; the latter is what arm skip does, to be held against"
        " first - skip. last - skip should be |C| under synchronous scheduling. "
    )
    note += (
        f"The arms took turns in {int(launches[in_turns].min())} launches or more: differences are medians within a"
        " launch, their mean over launches, and its 95 % interval." if in_turns.all() else
        "The arms are separate runs here, so differences below their spread say nothing."
    )
    found = table("Commit orders side by side", columns, rows, sweep.origin, note)
    return Table(found.caption, found.columns, found.rows, found.note, filterable=len(rows) > 12)


def _arm_cell(values: dict[str, object], name: str, why: str) -> Cell:
    """A figure, with its interval over launches where it has one."""
    stem = name.removesuffix("_ns")
    low, high = values.get(f"{stem}_low_ns"), values.get(f"{stem}_high_ns")
    value = values[name]
    if not all(isinstance(bound, int | float) for bound in (value, low, high)):
        return number(value, "ns", why)
    said = (format(float(bound) / 1e3, ",.1f") for bound in (value, low, high) if isinstance(bound, int | float))
    return "{} ({} to {})".format(*said)


def points_table(sweep: SweepView) -> Table:
    """Every point with its parameters and main figures; sortable and, when long, with a search box."""
    known = {
        name for point in sweep.measured for name, value in point.metrics.items()
        if value is not None or name not in ONLY_WHERE_MEASURED
    }  # fmt: skip
    metrics = [name for name in POINT_METRICS if name in known and (name != PACE or sweep.paced)]
    linked = any(point.href for point in sweep.points)
    names = sweep.varying or tuple(dict.fromkeys(name for point in sweep.points for name in point.parameters))
    repeated = any(point.repeat for point in sweep.points)
    rows = tuple(
        Row((
            *((Link("page", point.href) if point.href else "-",) if linked else ()),
            *(_parameter(point.value(name)) for name in names), *((str(point.repeat),) if repeated else ()),
            point.status,
            *(cell_of(name, point.metrics, point.reasons, point.status) for name in metrics),
        ), point.origin if point.status == "ok" else None)
        for point in sweep.points
    )
    columns = (
        *((Column("page"),) if linked else ()), *(Column(short(name), numeric=_numeric(sweep, name)) for name in names),
        *((Column("repeat", numeric=True),) if repeated else ()), Column("status"),
        *(column_of(name) for name in metrics),
    )
    return Table("Every point: parameters and figures", columns, rows, filterable=len(rows) > 12)


def _parameter(text: str) -> Cell:
    try:
        return Quantity(int(text), "exact")
    except ValueError:
        return text


def _numeric(sweep: SweepView, name: str) -> bool:
    return all(isinstance(_parameter(point.value(name)), Quantity) for point in sweep.points)


def failures_table(sweep: SweepView) -> Table | None:
    """Points that failed or were skipped, with the reason; None when all went well."""
    rows = tuple(
        Row((point.id, ", ".join(f"{short(name)} {point.value(name)}" for name in sweep.varying), point.status,
             point.reason or "no reason was given"))
        for point in sweep.points if point.status != "ok"
    )
    columns = (Column("point"), Column("setting"), Column("status"), Column("reason"))
    return Table("Points without figures", columns, rows) if rows else None


def reasons_table(sweep: SweepView) -> Table | None:
    """Metrics that points lack, with the reason and the number of points; None when every metric is there."""
    counts = Counter(
        (name, point.reasons.get(name) or "the point does not say why")
        for point in sweep.measured for name, value in point.metrics.items() if value is None
    )
    if not counts:
        return None
    whole = len(sweep.measured)
    rows = [
        (name, Quantity(points, "count"), f"{points} of {whole}", reason)
        for (name, reason), points in sorted(counts.items())
    ]
    columns = (Column("metric"), count_column("points"), Column("of the measured points"), Column("reason"))
    found = table("Metrics that were not measured, and why", columns, rows)
    return Table(found.caption, found.columns, found.rows, filterable=len(rows) > 12)
