"""The gate's verdict as a page: what was judged, the effects with their intervals, every point."""

from __future__ import annotations

import math

from ...analysis.gate.matching import ALL
from ...analysis.gate.point import PointVerdict
from ...analysis.gate.result import GateResult, Level, Levels, unit_of
from ...analysis.gate.suite import SuiteVerdict
from ..document import Block, Cell, Column, Document, Facts, Missing, Quantity, Row, Section, Table, Words
from .forest import effects_chart
from .order import counts, worst_first
from .reasons import meanings
from .words import last_line, point_name, signed

_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def gate_document(result: GateResult) -> Document:
    """The page of `result`."""
    suite = result.suite
    verdict: list[Block] = [Words(last_line(suite), emphasis=True), Words(f"{counts(suite)}.")]
    verdict += [Words(note) for note in result.notes]
    if suite.points:
        verdict.append(Facts("What the reasons say", meanings(point.reason for point in worst_first(suite))))
    sections = [
        Section("verdict", "Verdict", (*verdict, *_together(suite)), brief=True),
        *([Section("effects", "Effects", (chart,))] if (chart := effects_chart(suite)) else []),
        Section("points", "Points", (_points(result), *_beside(result))),
        Section("machine", "Machine", (_machine(result),)),
    ]
    how = "both arms side by side" if result.kind == "paired" else "against stored results"
    subtitle = f"head {result.head or 'not named'} against base {result.base or 'not named'}, {how}"
    return Document(f"perf gate: {suite.verdict.value}", subtitle, tuple(sections))


def _together(suite: SuiteVerdict) -> tuple[Block, ...]:
    if not suite.geomeans:
        return ()
    columns = (
        Column("metric"), Column("points", "count", numeric=True), Column("head against base", numeric=True),
        Column("90 % interval", numeric=True), Column("verdict"), Column("why"),
    )  # fmt: skip
    rows = tuple(
        Row((
            metric, Quantity(found.points, "count"), signed(found.effect),
            f"{signed(found.low)} to {signed(found.high)}", found.verdict.value, found.reason.value,
        ))
        for metric, found in suite.geomeans.items()
    )  # fmt: skip
    return (Table("All points together (geometric means)", columns, rows),)


def _points(result: GateResult) -> Table:
    columns = (
        Column("verdict"), Column("point"), Column("metric"), Column("effect", numeric=True),
        Column("90 % interval", numeric=True), Column("why"), Column("base", numeric=True),
        Column("head", numeric=True), Column("least effect", numeric=True), Column("Holm p", numeric=True),
        Column("launches", "count", numeric=True),
    )  # fmt: skip
    rows = tuple(_row(point, result) for point in worst_first(result.suite))
    return Table("Every point and metric, the worst first", columns, rows, filterable=len(rows) > 12)


def _beside(result: GateResult) -> tuple[Table, ...]:
    if not result.beside:
        return ()
    columns = (
        Column("point"), Column("metric"), Column("effect", numeric=True), Column("90 % interval", numeric=True),
        Column("base", numeric=True), Column("head", numeric=True), Column("launches", "count", numeric=True),
    )  # fmt: skip
    rows = []
    for one in result.beside:
        levels = result.levels.get((one.point, one.metric), Levels(None, None))
        base, head = (_level(level, one.metric, Missing("not measured")) for level in (levels.base, levels.head))
        interval = signed(None) if one.low is None else f"{signed(one.low)} to {signed(one.high)}"
        rows.append(Row((
            point_name(one.point), one.metric, signed(one.effect), interval, base, head,
            Quantity(one.launches, "count"),
        )))  # fmt: skip
    return (Table("Beside the medians: the tail of the period over a block's steps, not gated", columns, tuple(rows)),)


def _row(point: PointVerdict, result: GateResult) -> Row:
    name = point.point, point.metric
    levels = result.levels.get(name, Levels(None, None))
    figures, p_value = point.figures, result.suite.holm_p.get(name)
    unknown = Missing(point.reason.value)
    known = figures is not None and figures.low is not None
    return Row((
        point.verdict.value, "all points" if point.point == ALL else point_name(point.point),
        "all metrics" if point.metric == ALL else point.metric,
        signed(None if figures is None else figures.effect),
        f"{signed(figures.low)} to {signed(figures.high)}" if figures is not None and known else signed(None),
        "; ".join(part for part in (point.reason.value, point.detail) if part),
        _level(levels.base, point.metric, unknown), _level(levels.head, point.metric, unknown),
        signed(None if figures is None else figures.least_effect),
        signed(None) if p_value is None else f"{p_value:.2g}",
        signed(None) if figures is None else Quantity(figures.launches, "count"),
    ))  # fmt: skip


def _level(level: Level | None, metric: str, unknown: Missing) -> Cell:
    if level is None or not math.isfinite(level.value):
        return unknown
    unit = unit_of(metric)
    if unit in _NANOSECONDS:
        return Quantity(level.value * _NANOSECONDS[unit], "ns")
    return Quantity(level.value, "bytes" if unit == "bytes" else "fraction" if unit == "1" else "count")


def _machine(result: GateResult) -> Facts:
    said = {"head's commit": result.commit, "measured at": result.time, **result.machine}
    known = tuple((key, str(value)) for key, value in said.items() if value is not None)
    return Facts("Where it was measured", known or (("environment", Missing("no result says")),))
