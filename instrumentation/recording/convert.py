"""Ledger rows become tables: keys in front, nullable types, nothing through floating point on the way.

    ("spans", (7, "host:main", "forward", "phase", 0, 2**60, None, 0, None))
    -> host  pid  rank device clock_id       step  lane       name     kind   depth  start_ns             end_ns ...
       box   41   <NA> sim    host_monotonic 7     host:main  forward  phase  0      1152921504606846976  <NA>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from ..probe.ledger import Row
from .derive import derive
from .meta import Diagnostic, RecordingMeta
from .schema import (
    CAPTURE_SOURCES,
    KEYS,
    LEDGER_COLUMNS,
    ONLY_CAPTURES,
    OWN_SOURCE,
    SWEEP_KEYS,
    TABLES,
    Column,
)

_ARROW = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "bool": pa.bool_()}
_PANDAS = {
    pa.int64(): pd.Int64Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.string(): pd.StringDtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def columns_of(table: str, *, in_sweep: bool) -> tuple[Column, ...]:
    """All columns of a stored table, keys first."""
    return (*KEYS, *(SWEEP_KEYS if in_sweep else ()), *TABLES[table])


def arrow_schema(table: str, *, in_sweep: bool) -> pa.Schema:
    """The stored types of a table. Every column may hold nulls."""
    return pa.schema([(column.name, _ARROW[column.type]) for column in columns_of(table, in_sweep=in_sweep)])


def to_arrow(table: str, rows: Sequence[Row], meta: RecordingMeta) -> pa.Table:
    """Rows (step, then the schema's columns) as an Arrow table. Raises ValueError where a row does not fit."""
    in_sweep = meta.sweep is not None
    schema = arrow_schema(table, in_sweep=in_sweep)
    constants = {**msgspec.structs.asdict(meta.process), **(msgspec.structs.asdict(meta.sweep) if meta.sweep else {})}
    names = ["step", *(column.name for column in TABLES[table])]
    rows = _whole(table, rows, len(names))
    values: dict[str, Sequence[Any]] = {name: [constant] * len(rows) for name, constant in constants.items()}
    transposed = zip(*rows, strict=True) if rows else [()] * len(names)
    values.update(zip(names, transposed, strict=True))
    return pa.table([_array(table, field, values[field.name]) for field in schema], schema=schema)


def _whole(table: str, rows: Sequence[Row], width: int) -> Sequence[Row]:
    """Rows of `width` values: those of a ledger end before the columns that only importers fill."""
    short = 1 + len(LEDGER_COLUMNS[table])
    if any(len(row) not in (short, width) for row in rows):
        raise ValueError(f"{table}: a row does not have {short} values")
    if short == width:
        return rows
    nothing = (None,) * (width - short)
    return [row if len(row) == width else (*row, *nothing) for row in rows]


def _array(table: str, field: pa.Field, values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"{table}.{field.name}: {str(error).splitlines()[0]}") from error


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Arrow to pandas with nullable types; int64 stays int64, also beside nulls."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_PANDAS.get)
    return frame


def from_frame(name: str, frame: pd.DataFrame, *, in_sweep: bool) -> pa.Table:
    """Pandas to Arrow in the schema's order and types; a column that the frame lacks is null.

    Built column by column, without pandas' own notes in the file: those differ between its versions.
    """
    schema = arrow_schema(name, in_sweep=in_sweep)
    unknown = [str(column) for column in frame.columns if column not in schema.names]
    if unknown:
        raise ValueError(f"{name}: the schema has no column {unknown[0]!r}")
    columns = [
        _column(name, field, frame[field.name]) if field.name in frame.columns else pa.nulls(len(frame), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _column(table: str, field: pa.Field, values: pd.Series[Any]) -> pa.Array:
    """Raises ValueError for floats where the schema wants integers: beyond 2^53 they have lost nanoseconds already."""
    if pa.types.is_integer(field.type) and pd.api.types.is_float_dtype(values.dtype) and values.notna().any():
        raise ValueError(
            f"{table}.{field.name}: holds {values.dtype} where int64 is wanted; keep them in a nullable Int64 column"
        )
    return pa.array(values, field.type, from_pandas=True)


def frames_from_rows(rows: Mapping[str, Sequence[Row]], meta: RecordingMeta) -> dict[str, pd.DataFrame]:
    """All tables, derived columns filled in. `rows` are by table name, as a ledger hands them over."""
    filled = derive(
        rows, modelled=meta.modelled, has_device=meta.has_device, lost=meta.lost_rows, ours=meta.source == OWN_SOURCE
    )
    return {table: to_frame(to_arrow(table, filled.get(table, ()), meta)) for table in TABLES}


def explain_nulls(frames: Mapping[str, pd.DataFrame], meta: RecordingMeta) -> RecordingMeta:
    """Meta with a reason for each column that holds nulls and has none yet."""
    nulls = [
        (table, column.name)
        for table, frame in frames.items()
        for column in TABLES[table]
        if len(frame) and frame[column.name].isna().any()
    ]
    return explain_columns(nulls, meta)


def explain_columns(nulls: Iterable[tuple[str, str]], meta: RecordingMeta) -> RecordingMeta:
    """Meta with a reason for each (table, column) that holds nulls and has none yet."""
    silent = [(table, column) for table, column in nulls if meta.reason(table, column) is None]
    return meta.with_diagnostics(*(Diagnostic(table, column, _reason(table, column, meta)) for table, column in silent))


_KNOWN = {
    ("steps", "period_ns"): "the last step has no next one",
    ("steps", "latency_ns"): "the step did not finish",
    ("steps", "batch_overlap"): "the first step has none before it",
    ("steps", "accepted_tokens"): "nobody counted them, or the step's tokens did not come back",
    ("phases", "host_ns"): "an exception left the phase",
    ("spans", "depth"): "only ranges and phases nest",
    ("spans", "correlation"): "nothing was launched from it, or by it",
    ("copies", "changed_bytes"): "the buffer does not know which of its bytes changed",
    ("dispatch", "size"): "nothing was replayed",
}
_SUMMED = {
    *(("steps", f"{name}_ns") for name in ("period", "host_wait", "host_busy")),
    *(("steps", f"num_{name}") for name in ("syncs", "launches", "h2d")), ("phases", "starved_ns"),
    ("phases", "busy_ns"),
}
"""What `derive` makes of all rows."""
_DEVICE_TIMES = ("span_ns", "err_ns", "span_start_ns")


def _reason(table: str, column: str, meta: RecordingMeta) -> str:
    known = _KNOWN.get((table, column))
    if meta.lost_rows and (table, column) in _SUMMED:
        return f"rows are missing that it is made of{f', or {known}' if known else ''}"
    if known is not None:
        return known
    if column not in {own.name for own in LEDGER_COLUMNS[table]} and meta.source not in CAPTURE_SOURCES:
        return ONLY_CAPTURES
    if not meta.has_device and (table, column) not in _HOST_SIDE:
        return f"not applicable on device {meta.device}"
    if table == "phases" and column in _DEVICE_TIMES:
        return "no device mark lies at both borders; between_steps has none"
    if (table, column) == ("phases", "busy_ns") and not meta.modelled:
        return "needs a profiler's view of the device's work"
    if table == "phases":
        return "the span is not known"
    return f"not recorded by source {meta.source}"


_HOST_SIDE = {
    ("steps", column.name) for column in TABLES["steps"] if column.name not in ("num_syncs", "num_launches", "num_h2d")
}
