"""A Recording's tables, process by process, and frames of results with nullable columns.

Reading goes through `Columns` (`columns.py`); an absent table or column reads as "all null".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from .columns import BoolArray as BoolArray
from .columns import Columns, FloatArray
from .columns import LongArray as LongArray

Table = pd.DataFrame | Columns

PROCESS_KEYS = ("host", "pid", "rank", "point", "launch", "arm", "pair", "order")
"""What tells one process's rows from another's: correlations and step numbers are unique only within these."""


class TableSource(Protocol):
    """What the analysis needs of a Recording: its tables by name."""

    def table(self, name: str) -> pd.DataFrame:
        """The table `name`, empty when nothing was recorded."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Process:
    """The rows of one process of a Recording. `keys` are the key values that its rows share; equal to itself only."""

    keys: Mapping[str, object]
    tables: Mapping[str, pd.DataFrame]
    _columns: dict[str, Columns] = field(default_factory=dict, init=False, repr=False)

    def table(self, name: str) -> pd.DataFrame:
        """The process's rows of `name`; an empty frame without columns when there are none."""
        return self.tables.get(name, pd.DataFrame())

    def rows(self, name: str) -> Columns:
        """The same rows column by column, read once for all who ask."""
        if name not in self._columns:
            self._columns[name] = Columns(self.table(name))
        return self._columns[name]

    def counted(self, name: str) -> Columns:
        """The rows of `name` that belong to counted steps."""
        key = f"{name} of counted steps"
        if key not in self._columns:
            rows = self.rows(name)
            step, in_step = rows.ints("step")
            self._columns[key] = rows[in_step & self.is_counted(step)]
        return self._columns[key]

    def counted_numbers(self) -> LongArray:
        """Numbers of the steps that figures are made of, in recorded order."""
        steps = self.rows("steps")
        numbers, numbered = steps.ints("step")
        return numbers[numbered & counted_steps(steps)]

    def is_counted(self, step: LongArray) -> BoolArray:
        """Whether each number is that of a step that figures are made of."""
        return np.isin(step, self.counted_numbers())


NOBODY = Process({}, {})
"""The process of an empty recording: every table is empty."""

PROCESS_TABLES = ("steps", "phases", "spans", "copies", "waits", "edges", "dispatch", "buffers")


class Split:
    """A recording that was split by process once, for several questions."""

    def __init__(self, recording: TableSource) -> None:
        self._recording = recording
        self.processes = processes(recording)

    def table(self, name: str) -> pd.DataFrame:
        """The recording's table."""
        return self._recording.table(name)


def processes(recording: TableSource) -> list[Process]:
    """Split a recording by process. `calibration` belongs to all of them and is handed to each."""
    if isinstance(recording, Process):
        return [recording]
    if isinstance(recording, Split):
        return recording.processes
    calibration = recording.table("calibration")
    parts: dict[tuple[object, ...], dict[str, pd.DataFrame]] = {}
    for name in PROCESS_TABLES:
        for key, rows in _by_process(recording.table(name)):
            parts.setdefault(key, {"calibration": calibration})[name] = rows
    return [Process(dict(zip(PROCESS_KEYS, key, strict=True)), tables) for key, tables in parts.items()]


def _by_process(frame: pd.DataFrame) -> Iterator[tuple[tuple[object, ...], pd.DataFrame]]:
    """(key values, rows) of each process, in order of first appearance. Null keys are one value, None."""
    if frame.empty:
        return
    keys = {key: pd.factorize(frame[key]) for key in PROCESS_KEYS if key in frame.columns}  # code -1 is null
    owner = np.zeros(len(frame), dtype=np.int64)
    for codes, values in keys.values():
        if len(values):
            owner, _ = pd.factorize(owner * (len(values) + 1) + codes)
    first = np.unique(owner, return_index=True)[1].tolist()
    for number, row in enumerate(first):
        found = {key: plain(values[codes[row]]) if codes[row] >= 0 else None for key, (codes, values) in keys.items()}
        rows = frame if len(first) == 1 else frame.iloc[np.flatnonzero(owner == number)]
        yield tuple(found.get(key) for key in PROCESS_KEYS), rows


def plain(value: Any) -> Any:
    """A Python scalar; None for any kind of missing value."""
    if value is None or value is pd.NA or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value


def columns_of(table: Table) -> Columns:
    """The table column by column; `Columns` are passed through, so that what they hold already is used."""
    return table if isinstance(table, Columns) else Columns(table)


def ints(table: Table, name: str) -> tuple[LongArray, BoolArray]:
    """Values (0 where null) and validity of an integer column, exactly. The arrays are read-only."""
    return columns_of(table).ints(name)


def floats(table: Table, name: str) -> tuple[FloatArray, BoolArray]:
    """Values (0 where null) and validity of a float column. The arrays are read-only."""
    return columns_of(table).floats(name)


def texts(table: Table, name: str) -> list[str | None]:
    """A string column as Python strings, None where null."""
    return columns_of(table).texts(name)


def matches(table: Table, name: str, *wanted: str) -> BoolArray:
    """Rows whose string column is one of `wanted`; null never matches."""
    return columns_of(table).matches(name, *wanted)


def flags(table: Table, name: str, *, null: bool) -> BoolArray:
    """A bool column, with `null` standing in where nothing was recorded."""
    return columns_of(table).flags(name, null=null)


def nullable(values: npt.ArrayLike, valid: npt.ArrayLike) -> pd.arrays.IntegerArray:
    """An Int64 column from values and validity."""
    mask = ~np.asarray(valid, dtype=np.bool_)
    return pd.arrays.IntegerArray(np.array(values, dtype=np.int64, copy=True), mask)


def nullable_floats(values: npt.ArrayLike, valid: npt.ArrayLike) -> pd.arrays.FloatingArray:
    """A Float64 column from values and validity: null, never NaN."""
    mask = ~np.asarray(valid, dtype=np.bool_)
    kept = np.where(mask, 0.0, np.asarray(values, dtype=np.float64))
    return pd.arrays.FloatingArray(kept, mask)


def records(rows: Iterable[Mapping[str, object]], columns: Mapping[str, str]) -> pd.DataFrame:
    """A frame of `rows` with these columns and nullable dtypes ("Int64", "Float64", "string", "boolean").

    Given per column, so that one null does not turn a column of integers into floats.
    """
    listed = list(rows)
    return pd.DataFrame({
        name: pd.array([row.get(name) for row in listed], dtype=dtype)  # type: ignore[call-overload]
        for name, dtype in columns.items()
    })


def gather(recording: TableSource, one: Callable[[Process], pd.DataFrame]) -> pd.DataFrame:
    """`one` of every process, stacked."""
    return stack([(process, one(process)) for process in processes(recording)] or [(NOBODY, one(NOBODY))])


def stack(parts: Sequence[tuple[Process, pd.DataFrame]]) -> pd.DataFrame:
    """The processes' frames, one below the other; where there are several, the keys that name them stand in front."""
    if len(parts) == 1:
        return parts[0][1]
    frames = []
    for process, frame in parts:
        for key in reversed(PROCESS_KEYS):
            if process.keys[key] is not None:
                frame.insert(0, key, process.keys[key])  # type: ignore[arg-type]
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def counted_steps(steps: Table) -> BoolArray:
    """Steps that figures are made of: not warm-up, not incomplete. Sources that do not say are believed complete."""
    return ~flags(steps, "warmup", null=False) & flags(steps, "complete", null=True)


def first_by(keys: LongArray, valid: BoolArray, wanted: LongArray) -> LongArray:
    """For each `wanted` value the row where it first occurs among the valid `keys`; -1 where it doesn't."""
    rows = np.flatnonzero(valid)
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    unique, first = np.unique(keys[rows], return_index=True)
    place = np.minimum(np.searchsorted(unique, wanted), len(unique) - 1)
    found: LongArray = np.where(unique[place] == wanted, rows[first[place]], -1).astype(np.int64)
    return found
