"""What a capture holds once its format is forgotten: columns of host rows, device rows and copies.

All columns of a group have one length. Times are integer nanoseconds of one clock; ABSENT stands for null. Names are
codes into `Trace.names`; kinds, directions and memories are codes into the tuples below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np

from ..recording.registry import Value
from .arrays import BoolArray, LongArray, empty

HOST_KINDS = ("range", "op", "launch", "api", "sync", "overhead")
"""range: NVTX or record_function; op: a framework operator; launch, api, sync: calls of CUDA or HIP; overhead: the
profiler's own work."""
RANGE, OP, LAUNCH, API, SYNC, OVERHEAD = range(len(HOST_KINDS))
CALLS = (LAUNCH, API, SYNC)

DEVICE_KINDS = ("kernel", "memset", "graph")
"""graph: the replay of a whole graph as one row, where its kernels were not recorded."""
KERNEL, MEMSET, GRAPH = range(len(DEVICE_KINDS))

DIRECTIONS = (
    "unknown", "h2d", "d2h", "h2a", "a2h", "a2a", "a2d", "d2a", "d2d", "h2h", "p2p",
    "unified_h2d", "unified_d2h", "unified_d2d",
)  # fmt: skip
MEMORIES = ("unknown", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static")
UNKNOWN = 0

_Rows = TypeVar("_Rows", bound="Rows")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A group of columns; `process` is a place in `Trace.processes`."""

    process: LongArray = field(default_factory=empty)
    start: LongArray = field(default_factory=empty)
    end: LongArray = field(default_factory=empty)
    correlation: LongArray = field(default_factory=empty)

    def __len__(self) -> int:
        return len(self.start)

    def taken(self: _Rows, chosen: LongArray | BoolArray) -> _Rows:
        """Some of the rows, by index or by mask."""
        return type(self)(**{entry.name: getattr(self, entry.name)[chosen] for entry in fields(self)})

    def moved(self: _Rows, by_ns: int) -> _Rows:
        """The rows on a clock that began `by_ns` earlier."""
        return replace(self, start=self.start + by_ns, end=self.end + by_ns) if by_ns else self

    def joined(self: _Rows, *others: _Rows) -> _Rows:
        """The rows of all, in order."""
        parts = (self, *others)
        return type(self)(
            **{entry.name: np.concatenate([getattr(part, entry.name) for part in parts]) for entry in fields(self)}
        )


@dataclass(frozen=True, slots=True, eq=False)
class HostRows(Rows):
    """What threads did. `thread` is the system's number; `domain` a name's code, ABSENT for the default domain."""

    thread: LongArray = field(default_factory=empty)
    kind: LongArray = field(default_factory=empty)
    name: LongArray = field(default_factory=empty)
    domain: LongArray = field(default_factory=empty)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRows(Rows):
    """What a device executed, copies apart. `device` is a place in `Trace.devices`."""

    device: LongArray = field(default_factory=empty)
    stream: LongArray = field(default_factory=empty)
    kind: LongArray = field(default_factory=empty)
    name: LongArray = field(default_factory=empty)
    graph_node: LongArray = field(default_factory=empty)
    size_bytes: LongArray = field(default_factory=empty)


@dataclass(frozen=True, slots=True, eq=False)
class CopyRows(Rows):
    """Memory copies."""

    device: LongArray = field(default_factory=empty)
    stream: LongArray = field(default_factory=empty)
    direction: LongArray = field(default_factory=empty)
    src_kind: LongArray = field(default_factory=empty)
    dst_kind: LongArray = field(default_factory=empty)
    size_bytes: LongArray = field(default_factory=empty)
    copy_count: LongArray = field(default_factory=empty)
    graph_node: LongArray = field(default_factory=empty)


@dataclass(frozen=True, slots=True)
class CapturedProcess:
    """Whose rows they are."""

    pid: int | None = None
    rank: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader of some column must know; becomes a diagnostic of the Recording."""

    table: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A capture, format forgotten.

    clock    `wall` (nanoseconds since 1970) or `session` (since the capture's own start)
    absent   tables or categories that the file does not have, as figures name them: kernels, copies, calls, ranges
    facts    what the file says of itself, by registered names: versions, graph trace mode, counts of skipped rows
    """

    source: Literal["nsys", "kineto"]
    processes: tuple[CapturedProcess, ...]
    devices: tuple[str, ...]
    names: tuple[str, ...]
    host: HostRows
    device: DeviceRows
    copies: CopyRows
    clock: Literal["wall", "session"] = "session"
    absent: tuple[str, ...] = ()
    environment: Mapping[str, Value] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
