"""Device work of an nsys export: kernels, memsets, whole graphs and copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import ABSENT, BoolArray, LongArray, Names, distinct, filled, plausible, sizes
from ..trace import DIRECTIONS, GRAPH, KERNEL, MEMORIES, MEMSET, CopyRows, DeviceRows
from .database import Database
from .enums import coded, copy_kinds, memory_kinds
from .processes import Devices, Processes

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_COMMON = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_NAME_COLUMNS = ("demangledName", "shortName", "mangledName")


@dataclass(slots=True)
class Reading:
    """What the readers of the tables share. `invalid` counts rows that were left out, by table."""

    database: Database
    names: Names = field(default_factory=Names)
    processes: Processes = field(default_factory=Processes)
    invalid: dict[str, int] = field(default_factory=dict)

    def valid(self, table: str, start: LongArray, end: LongArray) -> BoolArray:
        """Rows with usable times; the others are counted."""
        good = plausible(start, end)
        self.note(table, int(len(good) - np.count_nonzero(good)))
        return good

    def note(self, table: str, count: int) -> None:
        """Count rows that are left out."""
        if count:
            self.invalid[table] = self.invalid.get(table, 0) + count


@dataclass(frozen=True, slots=True)
class Raw:
    """A table's rows that have times, with the file's own numbers, and what became of the common columns."""

    columns: dict[str, LongArray]
    process: LongArray

    @property
    def common(self) -> dict[str, LongArray]:
        """Columns that go into `DeviceRows` and `CopyRows` as they are."""
        taken = {"start": "start", "end": "end", "stream": "streamId", "correlation": "correlationId"}
        return {name: self.columns[column] for name, column in taken.items()} | {"process": self.process}


def read_raw(reading: Reading, table: str, *more: str) -> Raw:
    """The table's columns by name; no rows where it is absent or has no times."""
    columns = reading.database.integers(table, *_COMMON, *more)
    good = reading.valid(table, columns["start"], columns["end"])
    columns = {name: values[good] for name, values in columns.items()}
    return Raw(columns, reading.processes.of(columns["globalPid"]))


def kernel_rows(reading: Reading) -> DeviceRows:
    """Kernels; `device` is the file's own number."""
    named_by = next((name for name in _NAME_COLUMNS if name in reading.database.columns(KERNELS)), _NAME_COLUMNS[0])
    raw = read_raw(reading, KERNELS, named_by, "graphNodeId")
    if (raw.columns[named_by] == ABSENT).any():
        return _kernels(reading, read_raw(reading, KERNELS, *_NAME_COLUMNS, "graphNodeId"), _NAME_COLUMNS)
    return _kernels(reading, raw, (named_by,))


def _kernels(reading: Reading, raw: Raw, columns: Sequence[str]) -> DeviceRows:
    """The first of the columns that a row has names its kernel."""
    ids = filled(len(raw.process))
    for column in columns:
        ids = np.where(ids == ABSENT, raw.columns[column], ids)
    name = named(reading, ids, "[kernel without a name]")
    return _device_rows(raw, KERNEL, name, graph_node=raw.columns["graphNodeId"])


def memset_rows(reading: Reading) -> DeviceRows:
    """Memsets."""
    raw = read_raw(reading, MEMSETS, "bytes", "graphNodeId")
    name = filled(len(raw.process), reading.names.code("memset"))
    return _device_rows(
        raw, MEMSET, name, graph_node=raw.columns["graphNodeId"], size_bytes=sizes(raw.columns["bytes"])
    )


def graph_rows(reading: Reading) -> DeviceRows:
    """Replays of whole graphs, whose kernels were not recorded."""
    raw = read_raw(reading, GRAPHS)
    return _device_rows(raw, GRAPH, filled(len(raw.process), reading.names.code("graph replay")))


def _device_rows(
    raw: Raw, kind: int, name: LongArray, graph_node: LongArray | None = None, size_bytes: LongArray | None = None
) -> DeviceRows:
    count = len(raw.process)
    return DeviceRows(
        **raw.common, device=raw.columns["deviceId"], kind=filled(count, kind), name=name,
        graph_node=filled(count) if graph_node is None else graph_node,
        size_bytes=filled(count) if size_bytes is None else size_bytes,
    )


def copy_rows(reading: Reading) -> CopyRows:
    """Copies with direction and memories as this file numbers them."""
    raw = read_raw(reading, COPIES, "bytes", "copyKind", "srcKind", "dstKind", "copyCount", "graphNodeId")
    memories = memory_kinds(reading.database)
    return CopyRows(
        **raw.common, device=raw.columns["deviceId"],
        direction=coded(raw.columns["copyKind"], copy_kinds(reading.database), DIRECTIONS),
        src_kind=coded(raw.columns["srcKind"], memories, MEMORIES),
        dst_kind=coded(raw.columns["dstKind"], memories, MEMORIES),
        size_bytes=sizes(raw.columns["bytes"]), copy_count=sizes(raw.columns["copyCount"]),
        graph_node=raw.columns["graphNodeId"],
    )


def named(reading: Reading, ids: LongArray, otherwise: str) -> LongArray:
    """Codes of the texts of StringIds."""
    known, place = distinct(ids)
    texts = reading.database.strings(known)
    codes = np.array([reading.names.code(texts.get(key, otherwise)) for key in known.tolist()], dtype=np.int64)
    return codes[place] if len(codes) else ids


def place_devices(
    reading: Reading, device: DeviceRows, copies: CopyRows
) -> tuple[DeviceRows, CopyRows, tuple[str, ...]]:
    """The same with the file's device numbers turned into places in the list of devices."""
    pids = tuple(process.pid for process in reading.processes.listed())
    devices = Devices(reading.database)
    return (
        replace(device, device=devices.of(device.device, device.process, pids)),
        replace(copies, device=devices.of(copies.device, copies.process, pids)),
        devices.listed(),
    )
