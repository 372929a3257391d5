"""Events sorted into columns by category while they stream by. What no figure needs leaves no trace in memory.

GPU membership comes from the category alone: CPU operators may carry a stream, and synchronisations sit on the GPU's
rows without being work. The memory kinds of a copy stand only in its name.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy as np

from ..arrays import ABSENT, LONGEST_NS, BoolArray, LongArray, Names, empty, filled, plausible, sizes
from ..calls import call_of
from ..markers import OWN_PREFIX, marker_of
from ..trace import DIRECTIONS, KERNEL, MEMORIES, MEMSET, OP, OVERHEAD, RANGE, UNKNOWN, CopyRows, DeviceRows, HostRows
from .events import Args, Event
from .numbers import nanoseconds

_KERNEL, _COPY, _MEMSET, _CALL, _OP, _RANGE, _OVERHEAD = range(7)
_CATEGORIES = {
    "kernel": _KERNEL, "gpu_kernel": _KERNEL, "gpu_memcpy": _COPY, "memcpy": _COPY, "gpu_memset": _MEMSET,
    "memset": _MEMSET, "cuda_runtime": _CALL, "cuda_driver": _CALL, "runtime": _CALL, "driver": _CALL,
    "hip_runtime": _CALL, "hip_driver": _CALL, "cpu_op": _OP, "operator": _OP, "user_annotation": _RANGE,
    "overhead": _OVERHEAD,
}  # fmt: skip
_COPY_NAME = re.compile(r"Memcpy (\w+) \(([\w ]+?) *-> *([\w ]+?)\)", re.IGNORECASE)
_DIGITS = re.compile(r"-?\d+")
_NO_ARGS = Args()
_MANY = 4096
_FULL = 512
_KIND_BITS = 3
_KIND_MASK = (1 << _KIND_BITS) - 1
_SAMPLE = 64
_DEVICE_KINDS = {_KERNEL: KERNEL, _MEMSET: MEMSET}


def category_of(cat: str) -> int:
    """What becomes of events of this category; -1 for those that are left out. Old traces wrote "Kernel"."""
    return _CATEGORIES.get(cat.lower(), -1)


class _Buckets(dict[str, "list[Event] | None"]):
    """Events by the text of their category; None for categories that are left out."""

    def __missing__(self, cat: str) -> list[Event] | None:
        found: list[Event] | None = [] if category_of(cat) >= 0 else None
        if len(self) < _MANY:
            self[cat] = found
        return found


@dataclass(slots=True)
class _Columns:
    """Values of one group of events, chunk by chunk."""

    parts: dict[str, list[LongArray]] = field(default_factory=dict)

    def add(self, **columns: LongArray) -> None:
        for name, values in columns.items():
            self.parts.setdefault(name, []).append(values)

    def get(self, name: str) -> LongArray:
        return np.concatenate(self.parts[name]) if name in self.parts else empty()

    def zeros(self) -> LongArray:
        return np.zeros(len(self.get("start")), dtype=np.int64)


class Collector:
    """Takes lists of events; `host`, `device` and `copies` give the rows. Processes are numbered 0: one file is one.

    `invalid` counts events of each category without usable times; `skipped` the ones that are left out, by category.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.devices = Names()
        self.pids: Counter[int] = Counter()
        self.invalid: Counter[str] = Counter()
        self._host, self._device, self._copies = _Columns(), _Columns(), _Columns()
        self.seen: Counter[int] = Counter()
        self._buckets = _Buckets()
        self._host_names: tuple[dict[str, int], ...] = tuple({} for _ in range(_OVERHEAD + 1))

    def take(self, events: list[Any]) -> None:
        """Keep the events that figures need."""
        buckets = self._buckets
        for event in events:
            if type(event) is Event:
                bucket = buckets[event.cat]
                if bucket is not None:
                    bucket.append(event)
        self._sort(_FULL)

    def finish(self) -> None:
        """Sort what is left; then the columns are whole."""
        self._sort(1)

    def _sort(self, enough: int) -> None:
        """Turn categories that have gathered `enough` events into columns: small arrays cost more than they hold."""
        for cat, bucket in self._buckets.items():
            if bucket is not None and len(bucket) >= enough:
                self._take(category_of(cat), bucket)
                bucket.clear()

    def _take(self, category: int, events: list[Event]) -> None:
        start, end, good = self._times(events)
        if not good.all():
            events = [event for event, kept in zip(events, good.tolist(), strict=True) if kept]
            start, end = start[good], end[good]
        self.seen[category] += len(events)
        common = {"start": start, "end": end}
        if category in (_OP, _RANGE, _OVERHEAD):
            self._add_host(category, events, {**common, "correlation": filled(len(events))})
            return
        if category == _CALL:
            self._add_host(category, events, {**common, "correlation": _ints(_correlations(events))})
            return
        args = [event.args or _NO_ARGS for event in events]
        common["correlation"] = _ints([own.correlation for own in args])
        common |= {
            "device": self._device_of(events, args), "stream": self._streams(events, args),
            "graph_node": _nodes([own.node for own in args]),
        }
        if category == _COPY:
            self._add_copies(events, args, common)
        else:
            self._add_device(category, events, args, common)

    def _times(self, events: list[Event]) -> tuple[LongArray, LongArray, BoolArray]:
        start = nanoseconds([event.ts for event in events])
        duration = nanoseconds([event.dur for event in events])
        timed = (start != ABSENT) & (duration >= 0) & (duration <= LONGEST_NS)
        end = start + np.where(timed, duration, 0)
        good = timed & plausible(start, end)
        if not good.all():
            for event, kept in zip(events, good.tolist(), strict=True):
                self.invalid[event.cat.lower()] += not kept
        return start, end, good

    def _device_of(self, events: list[Event], args: list[Args]) -> LongArray:
        """Devices by the argument, else by the process id, which is the device's number on the GPU's rows."""
        return self.devices.codes(
            [str(event.pid if own.device is None else own.device) for event, own in zip(events, args, strict=True)]
        )

    def _streams(self, events: list[Event], args: list[Args]) -> LongArray:
        return _ints(
            [_number(event.tid) if own.stream is None else own.stream for event, own in zip(events, args, strict=True)]
        )

    def _add_device(self, category: int, events: list[Event], args: list[Args], common: dict[str, LongArray]) -> None:
        count = len(events)
        self._device.add(
            **common, kind=filled(count, _DEVICE_KINDS[category]),
            name=self.names.codes([event.name for event in events]) if category == _KERNEL
            else filled(count, self.names.code("memset")),
            size_bytes=sizes(_ints([own.bytes for own in args])) if category == _MEMSET else filled(count),
        )  # fmt: skip

    def _add_copies(self, events: list[Event], args: list[Args], common: dict[str, LongArray]) -> None:
        kinds = np.array([copy_kinds(event.name) for event in events], dtype=np.int64).reshape(-1, 3)
        self._copies.add(
            **common, direction=kinds[:, 0], src_kind=kinds[:, 1], dst_kind=kinds[:, 2],
            size_bytes=sizes(_ints([own.bytes for own in args])), copy_count=filled(len(events)),
        )

    def _add_host(self, category: int, events: list[Event], common: dict[str, LongArray]) -> None:
        self.pids.update(event.pid for event in events[:_SAMPLE] if isinstance(event.pid, int))
        texts = [event.name for event in events]
        known = self._host_names[category]
        try:
            told = np.fromiter(map(known.__getitem__, texts), dtype=np.int64, count=len(texts))
        except KeyError:
            for text in dict.fromkeys(texts):
                if text not in known:
                    known[text] = self._named(category, text)
            told = np.fromiter(map(known.__getitem__, texts), dtype=np.int64, count=len(texts))
        self._host.add(
            **common, thread=_threads([event.tid for event in events]), kind=told & _KIND_MASK, name=told >> _KIND_BITS,
            domain=filled(len(events)),
        )

    def _named(self, category: int, text: str) -> int:
        """Code of the name and kind of a host event in one number. Old traces have steps among the operators, and our
        probe's ranges stand there: such a name makes a range of it."""
        if category == _CALL:
            call = call_of(text)
            return self.names.code(call.name) << _KIND_BITS | call.kind
        kind = OVERHEAD if category == _OVERHEAD else OP
        if category == _RANGE or (category == _OP and (text.startswith(OWN_PREFIX) or marker_of(text) is not None)):
            kind = RANGE
        return self.names.code(text) << _KIND_BITS | kind

    def host(self) -> HostRows:
        """Calls, operators, annotations and the profiler's own work."""
        return HostRows(process=self._host.zeros(), **_all(self._host, _HOST))

    def device(self) -> DeviceRows:
        """Kernels and memsets."""
        return DeviceRows(process=self._device.zeros(), **_all(self._device, _DEVICE))

    def copies(self) -> CopyRows:
        """Copies."""
        return CopyRows(process=self._copies.zeros(), **_all(self._copies, _COPIES))

    def absent(self) -> tuple[str, ...]:
        """Kinds of rows that no event brought."""
        wanted = {"kernels": _KERNEL, "copies": _COPY, "calls": _CALL, "ranges": _RANGE}
        return tuple(name for name, category in wanted.items() if not self.seen[category])


_HOST = ("start", "end", "correlation", "thread", "kind", "name", "domain")
_DEVICE = ("start", "end", "correlation", "device", "stream", "kind", "name", "graph_node", "size_bytes")
_COPIES = (
    "start", "end", "correlation", "device", "stream", "direction", "src_kind", "dst_kind", "size_bytes", "copy_count",
    "graph_node",
)  # fmt: skip


def _all(columns: _Columns, names: tuple[str, ...]) -> dict[str, LongArray]:
    return {name: columns.get(name) for name in names}


@lru_cache(maxsize=1024)
def copy_kinds(name: str) -> tuple[int, int, int]:
    """(direction, source, destination) of "Memcpy HtoD (Pinned -> Device)". "Host" does not tell the kind of memory."""
    match = _COPY_NAME.match(name)
    if match is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    direction = match[1].lower().replace("to", "2")
    return _place(DIRECTIONS, direction), _place(MEMORIES, _memory(match[2])), _place(MEMORIES, _memory(match[3]))


def _memory(text: str) -> str:
    return text.strip().lower().replace(" ", "_")


def _place(known: tuple[str, ...], text: str) -> int:
    return known.index(text) if text in known else UNKNOWN


def _correlations(events: list[Event]) -> list[int | None]:
    try:
        return [event.args.correlation for event in events]  # type: ignore[union-attr]
    except AttributeError:
        return [(event.args or _NO_ARGS).correlation for event in events]


def _number(value: int | str | None) -> int | None:
    """A thread or stream: a number, also as a text or as "stream 7"."""
    if isinstance(value, str):
        match = _DIGITS.search(value)
        return int(match[0]) if match else None
    return value


def _threads(values: list[int | str | None]) -> LongArray:
    try:
        return np.fromiter(cast("list[int]", values), dtype=np.int64, count=len(values))
    except (TypeError, ValueError, OverflowError):  # a null, a text such as "stream 7", or more than 64 bits
        return _ints([_number(value) for value in values])


def _ints(values: list[int | None]) -> LongArray:
    """ABSENT for null and for what does not fit."""
    try:
        return np.fromiter(cast("list[int]", values), dtype=np.int64, count=len(values))
    except (TypeError, OverflowError):  # a null, or a number of more than 64 bits
        fits = [ABSENT if value is None or abs(value) >= 1 << 62 else value for value in values]
        return np.array(fits, dtype=np.int64)


def _nodes(values: list[int | None]) -> LongArray:
    """Graph nodes; 0 says that the kernel belongs to no graph."""
    found = _ints(values)
    return np.where(found == 0, ABSENT, found)
