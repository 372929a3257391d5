"""Events sorted into columns by category while they stream by. What no figure needs leaves no trace in memory.

The memory kinds of a copy stand only in its name.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import ABSENT, LARGEST, LONGEST_NS, BoolArray, LongArray, Names, empty, filled, longs, plausible, sizes
from ..calls import call_of
from ..markers import OWN_PREFIX, marker_of
from ..trace import DIRECTIONS, KERNEL, MEMORIES, MEMSET, OP, OVERHEAD, RANGE, UNKNOWN, CopyRows, DeviceRows, HostRows
from .categories import COUNT, IS_CALL, IS_COPY, IS_KERNEL, IS_MEMSET, IS_OP, IS_OVERHEAD, IS_RANGE, LEFT_OUT
from .events import Args, Event
from .numbers import nanoseconds

CodeArray = npt.NDArray[np.uint8]

_COPY_NAME = re.compile(r"Memcpy (\w+) \(([\w ]+?) *-> *([\w ]+?)\)", re.IGNORECASE)
_DIGITS = re.compile(r"-?\d+")
_NO_ARGS = Args()
_FULL = 2048
_KIND_BITS = 3
_KIND_MASK = (1 << _KIND_BITS) - 1
_SAMPLE = 64
_DEVICE_KINDS = {IS_KERNEL: KERNEL, IS_MEMSET: MEMSET}


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

    `invalid` counts events of each category without usable times; `seen` the ones that are kept, by category.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.devices = Names()
        self.pids: Counter[int] = Counter()
        self.callers: Counter[int] = Counter()
        self.invalid: Counter[str] = Counter()
        self._host, self._device, self._copies = _Columns(), _Columns(), _Columns()
        self.seen: Counter[int] = Counter()
        self._held: list[Event] = []
        self._texts = Names()
        self._named_texts = {category: empty() for category in range(COUNT)}

    def take(self, events: list[Any]) -> None:
        """Keep the events that figures need."""
        codes = _codes(events)
        kept = codes != LEFT_OUT
        if not kept.all():
            events, codes = list(compress(events, kept.tolist())), codes[kept]
        if self._held or len(events) < _FULL:  # small arrays cost more than they hold
            self._held += events
            if len(self._held) >= _FULL:
                self.finish()
        else:
            self._sort(events, codes)

    def finish(self) -> None:
        """Sort what is left; then the columns are whole."""
        held, self._held = self._held, []
        if held:
            self._sort(held, _codes(held))

    def _sort(self, events: list[Event], codes: CodeArray) -> None:
        """Turn events into columns; `codes` are their categories. A field is taken of all events at once, while they
        still lie in the cache, whatever is wanted of it."""
        start, end, good = self._times(events)
        text = self._texts.codes([event.name for event in events])
        if not good.all():
            events = list(compress(events, good.tolist()))
            codes, start, end, text = codes[good], start[good], end[good], text[good]
        counts = np.bincount(codes, minlength=COUNT).tolist()
        self.seen.update({category: count for category, count in enumerate(counts) if count})
        on_host = codes >= IS_CALL
        if on_host.any():
            self._add_host(events, codes, on_host, {"start": start, "end": end, "text": text})
        for category in (IS_KERNEL, IS_COPY, IS_MEMSET):
            if counts[category]:
                own = np.flatnonzero(codes == category)
                self._add_work(category, [events[row] for row in own.tolist()], start[own], end[own], text[own])

    def _add_work(
        self, category: int, events: list[Event], start: LongArray, end: LongArray, text: LongArray
    ) -> None:
        args = [event.args or _NO_ARGS for event in events]
        common = {
            "start": start, "end": end, "correlation": _ints([own.correlation for own in args]),
            "device": self._device_of(events, args), "stream": self._streams(events, args),
            "graph_node": _nodes([own.node for own in args]),
        }  # fmt: skip
        sized = filled(len(events)) if category == IS_KERNEL else sizes(_ints([own.bytes for own in args]))
        if category == IS_COPY:
            kinds = np.array([copy_kinds(self._texts.text(code)) for code in text.tolist()], dtype=np.int64)
            self._copies.add(
                **common, direction=kinds[:, 0], src_kind=kinds[:, 1], dst_kind=kinds[:, 2], size_bytes=sized,
                copy_count=filled(len(events)),
            )  # fmt: skip
        else:
            name = self._looked_up(category, text)
            self._device.add(**common, kind=filled(len(events), _DEVICE_KINDS[category]), name=name, size_bytes=sized)

    def _times(self, events: list[Event]) -> tuple[LongArray, LongArray, BoolArray]:
        start = nanoseconds([event.ts for event in events])
        duration = nanoseconds([event.dur for event in events])
        timed = (start != ABSENT) & (duration >= 0) & (duration <= LONGEST_NS)
        end = start + np.where(timed, duration, 0)
        good = timed & plausible(start, end)
        if not good.all():
            self.invalid.update(events[row].cat.value.lower() for row in np.flatnonzero(~good).tolist())
        return start, end, good

    def _device_of(self, events: list[Event], args: list[Args]) -> LongArray:
        """Devices by the argument, else by the process id, which is the device's number on the GPU's rows."""
        told = [event.pid if own.device is None else own.device for event, own in zip(events, args, strict=True)]
        known = {device: self.devices.code(str(device)) for device in dict.fromkeys(told)}
        return longs(map(known.__getitem__, told), len(told))

    def _streams(self, events: list[Event], args: list[Args]) -> LongArray:
        return _ints(
            [_number(event.tid) if own.stream is None else own.stream for event, own in zip(events, args, strict=True)]
        )

    def _add_host(
        self, events: list[Event], codes: CodeArray, on_host: BoolArray, common: dict[str, LongArray]
    ) -> None:
        """The rows `on_host`; `common` has values of all events."""
        correlation = filled(len(events))
        calls = np.flatnonzero(codes == IS_CALL)
        if len(calls):
            called = [events[row] for row in calls.tolist()]
            correlation[calls] = _ints(_correlations(called))
            self.callers.update(_sampled_pids(called))
        if not on_host.all():
            events, codes, correlation = list(compress(events, on_host.tolist())), codes[on_host], correlation[on_host]
            common = {name: values[on_host] for name, values in common.items()}
        self.pids.update(_sampled_pids(events))
        told = filled(len(events))
        for category in (IS_CALL, IS_OP, IS_RANGE, IS_OVERHEAD):
            own = codes == category
            if own.any():
                told[own] = self._looked_up(category, common["text"][own])
        self._host.add(
            start=common["start"], end=common["end"], correlation=correlation,
            thread=_threads([event.tid for event in events]), kind=told & _KIND_MASK, name=told >> _KIND_BITS,
            domain=filled(len(events)),
        )  # fmt: skip

    def _looked_up(self, category: int, text: LongArray) -> LongArray:
        """What `_named` says of each text, asked once a text."""
        known = self._named_texts[category]
        if len(self._texts) > len(known):
            known = np.concatenate((known, filled(2 * len(self._texts) - len(known))))
            self._named_texts[category] = known
        found = known[text]
        new = np.unique(text[found == ABSENT])
        if len(new):
            for code in new.tolist():
                known[code] = self._named(category, self._texts.text(code))
            found = known[text]
        return found

    def _named(self, category: int, text: str) -> int:
        """Code of a kernel's name; of a host event code of the name and kind in one number. Old traces have steps among
        the operators, and our probe's ranges stand there: such a name makes a range of it."""
        if category in _DEVICE_KINDS:
            return self.names.code(text if category == IS_KERNEL else "memset")
        if category == IS_CALL:
            call = call_of(text)
            return self.names.code(call.name) << _KIND_BITS | call.kind
        kind = OVERHEAD if category == IS_OVERHEAD else OP
        if category == IS_RANGE or (category == IS_OP and (text.startswith(OWN_PREFIX) or marker_of(text) is not None)):
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
        wanted = {"kernels": IS_KERNEL, "copies": IS_COPY, "calls": IS_CALL}
        found = tuple(name for name, category in wanted.items() if not self.seen[category])
        return found if (self._host.get("kind") == RANGE).any() else (*found, "ranges")


_HOST = ("start", "end", "correlation", "thread", "kind", "name", "domain")
_DEVICE = ("start", "end", "correlation", "device", "stream", "kind", "name", "graph_node", "size_bytes")
_COPIES = (
    "start", "end", "correlation", "device", "stream", "direction", "src_kind", "dst_kind", "size_bytes", "copy_count",
    "graph_node",
)  # fmt: skip


def _sampled_pids(events: list[Event]) -> list[int]:
    """Of some of the events."""
    return [event.pid for event in events[:: 1 + len(events) // _SAMPLE] if isinstance(event.pid, int)]


def _codes(events: list[Any]) -> CodeArray:
    """What becomes of each: a code of `categories`."""
    return np.frombuffer(bytes([event.cat.code for event in events]), dtype=np.uint8)


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
        return longs(values, len(values))
    except struct.error:  # a null, a text such as "stream 7", or more than 64 bits
        return _ints([_number(value) for value in values])


def _ints(values: list[int | None]) -> LongArray:
    """ABSENT for null and for what does not fit."""
    try:
        return longs(values, len(values))
    except struct.error:  # a null, or a number of more than 64 bits
        fits = [ABSENT if value is None or not ABSENT < value <= LARGEST else value for value in values]
        return np.array(fits, dtype=np.int64)


def _nodes(values: list[int | None]) -> LongArray:
    """Graph nodes; 0 says that the kernel belongs to no graph."""
    found = _ints(values)
    return np.where(found == 0, ABSENT, found)
