"""Section: what was not measured, and why."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ...analysis.costs import calibrated
from ...analysis.summary import NO_OVERHEAD, OWN_OVERHEAD
from ...instrumentation.recording.meta import RecordingMeta
from ..document import Block, Column, Quantity, Section, Words
from ..formatting import duration
from .cells import count_column, percent_column, table


def diagnostics_section(meta: RecordingMeta, tables: Mapping[str, pd.DataFrame]) -> Section:
    """Every noted reason with how many of its column's values are null, and nulls that nobody explained."""
    blocks: list[Block] = []
    noted = {(note.table, note.column) for note in meta.diagnostics}
    notes = meta.diagnostics
    rows = [(note.table, note.column, *_nulls(tables, note.table, note.column), note.reason) for note in notes]
    if rows:
        columns = (
            Column("table"), Column("column"), count_column("rows"), percent_column("not measured"), Column("reason"),
        )
        blocks.append(table("Not measured, and why", columns, rows))
    else:
        blocks.append(Words("The recording notes nothing that could not be measured."))
    blocks.append(Words(overhead_words(tables.get("calibration"))))
    silent = _unexplained(tables, noted)
    if silent:
        blocks.append(Words(f"Partly or wholly null without a noted reason: {', '.join(silent)}."))
    return Section("diagnostics", "What was not measured", tuple(blocks), nav="Not measured")


def overhead_words(calibration: pd.DataFrame | None) -> str:
    """What the probe's ranges and phases cost a step of this run, with its bounds; or why that is not known."""
    found = {} if calibration is None else {
        key: calibrated(calibration, OWN_OVERHEAD, key) for key in ("step", "step/low", "step/high")
    }  # fmt: skip
    value, low, high = (found.get(key) for key in ("step", "step/low", "step/high"))
    if value is None:
        return f"What the probe costs a step was not measured: {NO_OVERHEAD}."
    bounds = "" if low is None or high is None else f" ({duration(low)} to {duration(high)}, 95 %)"
    return f"The probe's ranges and phases cost {duration(value)} a step{bounds}. It is subtracted nowhere."


def _nulls(tables: Mapping[str, pd.DataFrame], name: str, column: str) -> tuple[Quantity, Quantity | str]:
    frame = tables.get(name)
    if frame is None or not len(frame):
        return Quantity(0, "count"), "no rows"
    if column not in frame.columns:
        return Quantity(len(frame), "count"), "see reason"
    return Quantity(len(frame), "count"), Quantity(float(frame[column].isna().mean()), "fraction")


def _unexplained(tables: Mapping[str, pd.DataFrame], noted: set[tuple[str, str]]) -> list[str]:
    return [
        f"{name}.{column}" for name, frame in tables.items() for column in frame.columns
        if frame[column].isna().any() and (name, column) not in noted
        and _STRUCTURAL.isdisjoint({column, f"{name}.{column}"})
    ]


_STRUCTURAL = frozenset({
    "host", "pid", "rank", "device", "step", "point", "launch", "arm", "pair", "order", "correlation",
    "dispatch.size", "spans.depth", "calibration.kernel_hash", "calibration.key",
})
"""Null by meaning and not for want of a measurement: keys that do not apply, an eager step's captured size."""
