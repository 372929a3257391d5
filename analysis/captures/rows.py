"""The tables of a capture as arrays: device work, copies and host rows, with processes and devices as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from ...instrumentation.recording.meta import RecordingMeta
from ...instrumentation.sources.arrays import ABSENT, BoolArray, LongArray, grouped
from ..columns import Columns

_Work = TypeVar("_Work", bound="Work")


class ArrowRows:
    """An Arrow table column by column; dictionary-encoded texts stay codes."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def ints(self, name: str) -> tuple[LongArray, BoolArray]:
        """Values (0 where null) and validity."""
        column = self._table[name].combine_chunks()
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray(values, dtype=np.int64), np.asarray(column.is_valid().to_numpy(zero_copy_only=False))

    def coded(self, name: str) -> tuple[LongArray, tuple[str, ...]]:
        """Codes into the names, -1 where null."""
        column = self._table[name].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.asarray(codes, dtype=np.int64), tuple(column.dictionary.to_pylist())

    def flags(self, name: str, *, null: bool) -> BoolArray:
        """A bool column, `null` standing in where nothing was recorded."""
        return np.asarray(self._table[name].combine_chunks().fill_null(null).to_numpy(zero_copy_only=False))


TableRows = ArrowRows | Columns


def rows_of(table: pa.Table | pd.DataFrame) -> TableRows:
    """Access to the columns of either kind of table."""
    return ArrowRows(table) if isinstance(table, pa.Table) else Columns(table)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Rows with times. `process` is a place in `CaptureRows.processes`; step and correlation are ABSENT where null;
    `phase` is a code into `CaptureRows.phases`, -1 where null."""

    process: LongArray
    step: LongArray
    phase: LongArray
    start: LongArray
    end: LongArray
    correlation: LongArray
    name: LongArray

    def __len__(self) -> int:
        return len(self.start)

    def taken(self: _Work, chosen: LongArray | BoolArray) -> _Work:
        """Some of the rows."""
        return type(self)(**{entry.name: getattr(self, entry.name)[chosen] for entry in fields(self)})

    @property
    def duration(self) -> LongArray:
        """Nanoseconds of each row."""
        return self.end - self.start

    @property
    def intervals(self) -> LongArray:
        """[n, 2]"""
        return np.stack((self.start, self.end), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWork(Work):
    """Device rows and copies. `device` is a place in `CaptureRows.devices`; `stream` a number that is unique for
    (process, device, lane); `kind` one of the KIND numbers."""

    device: LongArray
    stream: LongArray
    kind: LongArray


@dataclass(frozen=True, slots=True, eq=False)
class CopyWork(DeviceWork):
    """Copies. Directions and memories are codes into the tuples of `CaptureRows`; ABSENT where a number is null."""

    direction: LongArray
    src_kind: LongArray
    dst_kind: LongArray
    size_bytes: LongArray
    enqueue_start: LongArray
    enqueue_end: LongArray
    api: LongArray
    is_async: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class HostWork(Work):
    """Host rows. `thread` is a place in `CaptureRows.threads`; `kind` as in sources.trace.HOST_KINDS."""

    thread: LongArray
    kind: LongArray
    domain: LongArray


@dataclass(frozen=True, slots=True)
class ProcessKey:
    """Whose rows they are."""

    host: str | None
    pid: int | None
    rank: int | None


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """A GPU. In Kineto captures every rank numbers its own, so the rank belongs to the key; None elsewhere."""

    device: str
    rank: int | None = None

    @property
    def order(self) -> tuple[int, int, str]:
        """By rank, then by number, then by name."""
        digits = self.device.removeprefix("gpu")
        number = int(digits) if digits.isdecimal() and len(digits) < 9 else 1 << 30
        return (-1 if self.rank is None else self.rank, number, self.device)


@dataclass(frozen=True, slots=True, eq=False)
class CaptureRows:
    """Everything that the figures are made of. `names` are the names of spans, `apis` those of `CopyWork.api`.

    work   device rows and copies together, copies last; the name of a copy is -1
    """

    meta: RecordingMeta
    processes: tuple[ProcessKey, ...]
    devices: tuple[DeviceKey, ...]
    threads: tuple[str, ...]
    streams: tuple[str, ...]
    names: tuple[str, ...]
    domains: tuple[str, ...]
    phases: tuple[str, ...]
    directions: tuple[str, ...]
    src_kinds: tuple[str, ...]
    dst_kinds: tuple[str, ...]
    apis: tuple[str, ...]
    device: DeviceWork
    copies: CopyWork
    work: DeviceWork
    host: HostWork
    steps: TableRows
    phase_rows: TableRows
    step_process: LongArray
    phase_process: LongArray

    @property
    def absent(self) -> frozenset[str]:
        """What the capture does not hold: kernels, copies, calls, ranges."""
        return frozenset(self.meta.configuration.get("absent", ()))


def nowhere(rows: CaptureRows) -> LongArray:
    """Places of the devices that stand for work which does not say where it ran."""
    unknown = [place for place, key in enumerate(rows.devices) if key.device == "unknown"]
    return np.array(unknown, dtype=np.int64)


Tables = Mapping[str, Any]


def processes_of(tables: Tables, names: tuple[str, ...]) -> tuple[tuple[ProcessKey, ...], dict[str, LongArray]]:
    """All processes of the tables, and the place of each row's."""
    columns: dict[str, list[LongArray]] = {"host": [], "pid": [], "rank": []}
    hosts: dict[str, int] = {}
    lengths = []
    for name in names:
        rows = rows_of(tables[name])
        codes, texts = rows.coded("host")
        places = np.array([hosts.setdefault(text, len(hosts)) for text in texts] + [-1], dtype=np.int64)
        columns["host"].append(places[codes])
        for key in ("pid", "rank"):
            columns[key].append(absent_where_null(*rows.ints(key)))
        lengths.append(len(rows))
    joined = [np.concatenate(columns[key]) for key in ("host", "pid", "rank")]
    group, first = grouped(*joined)
    host_names = (*hosts, None)
    keys = tuple(
        ProcessKey(host_names[int(joined[0][row])], _plain(joined[1][row]), _plain(joined[2][row])) for row in first
    )
    borders = np.cumsum([0, *lengths])
    return keys, {name: group[borders[n] : borders[n + 1]] for n, name in enumerate(names)}


def _plain(value: np.int64) -> int | None:
    return None if value == ABSENT else int(value)


def absent_where_null(values: LongArray, valid: BoolArray) -> LongArray:
    """One column with ABSENT for null."""
    return np.where(valid, values, ABSENT)
