"""Rows of the `cuda` device that wait for device times, and the clock corridor that gives them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ...instrumentation.device_clock import ClockCorridor
from ...instrumentation.probe.ledger import Ledger, Row
from .cuda_events import EventTimeline
from .cuda_lanes import Stamp


class OpenOperation(NamedTuple):
    """One enqueued operation until its row is written.

    begin, end   the stamps before and behind it on its stream; begin may be of long ago. end None: it was not timed
    call_ns, return_ns   its enqueueing call on the host
    row          what its row says apart from times: of a copy direction to buffer, of a span lane, name, kind
    lane         a copy's lane, "" for a span;  is_async  of a copy;  profiled  CUPTI wrote times of its own around it
    """

    step: int | None
    op: int
    begin: Stamp | None
    end: Stamp | None
    call_ns: int
    return_ns: int
    row: tuple[object, ...]
    lane: str = ""
    is_async: bool = True
    profiled: bool = False


RawOperation = tuple[int | None, int, Stamp | None, Stamp | None, int, int, tuple[object, ...], str, bool, bool]
"""An OpenOperation as the hot path writes it: a plain tuple costs a third."""


@dataclass(frozen=True, slots=True)
class CopyCorrection:
    """What is known of timing operations by events.

    queued_bias_ns    by how much the pair around a copy reads long that waited for a kernel: the calibration knows the
                      usual time
    queued_err_ns     what is left then: going over to the copy engine takes 1.5 to 10 us, evenly spread (H200)
    engine_bias_ns    the same where the begin event is the copy engine's own: 1.2 to 1.5 us
    profiled_bias_ns  the same under CUPTI, which writes times of its own in between: 2.6 to 3.0 us from 32 KiB to 8 MiB
                      and in either direction (benchmarks/results/h200/copies.json)
    engine_err_ns     what is left then
    peak_bytes_per_s  the fastest transfer
    launch_ns         host cost of the first launch of a call;  latency_ns  from there to its start, by kind
    """

    queued_bias_ns: int = 0
    queued_err_ns: int = 6_000
    engine_bias_ns: int = 1_450
    profiled_bias_ns: int = 2_750
    engine_err_ns: int = 1_500
    peak_bytes_per_s: float = float("inf")
    launch_ns: int = 7_000
    kernel_latency_ns: int = 2_100
    graph_latency_ns: int = 5_600


Point = tuple[int, int]
"""(time_ns, err_ns) on the host's clock."""


class DeviceRows:
    """Holds rows back until their window of the device clock is fitted, then writes them into the ledger."""

    def __init__(self, ledger: Ledger, events: EventTimeline, correction: CopyCorrection) -> None:
        self.corridor = ClockCorridor()
        self.clock_faults = 0
        self.waiting: deque[RawOperation] = deque()
        self._spans, self._copies = ledger.table("spans"), ledger.table("copies")
        self._events = events
        self._correction = correction
        self._newest = 0  # the latest device time that was taken in
        self._closed = 0  # windows below this number are fitted for good

    def host_time(self, stamp: Stamp) -> Point | None:
        """(time_ns, err_ns) on the host's clock; None before the stamp's window is closed, or on a clock fault."""
        if stamp.host is None and stamp.device_ns is not None and self.is_final(stamp):
            stamp.host = self.corridor.to_host(stamp.device_ns)
        return stamp.host

    def is_final(self, stamp: Stamp) -> bool:
        """Whether `host_time` will not say more than it does now."""
        if stamp.device_ns is None:
            return stamp.lost
        if stamp.host is not None:
            return True
        return stamp.device_ns <= self._newest and self.corridor.window(stamp.device_ns) < self._closed

    def take(self, limit: int) -> int:
        """Take in at most `limit` resolved stamps and fit the windows that have closed. Returns their number."""
        taken = self._take_stamps(limit)
        current = self.corridor.window(self._newest)
        if current > self._closed:
            self.corridor.fit(since=self._closed)
            self._closed = current
        return taken

    def finish(self) -> None:
        """Take in everything and write every row: with the times that are known by now.

        Who goes on afterwards opens the last window again: it is fitted once more, through more constraints.
        """
        self._take_stamps(len(self._events.resolved))
        self.corridor.fit(since=self._closed)
        self._closed = self.corridor.window(self._newest) + 1
        while self.waiting:
            self._append(self.waiting.popleft())

    def _take_stamps(self, limit: int) -> int:
        resolved, corridor = self._events.resolved, self.corridor
        taken = min(limit, len(resolved))
        for _ in range(taken):
            stamp = resolved.popleft()
            device_ns = stamp.device_ns
            assert device_ns is not None, "a resolved stamp has its time"
            self._newest = max(self._newest, device_ns)
            self._closed = min(self._closed, corridor.window(device_ns))
            corridor.not_before(device_ns, stamp.recorded_ns)
            if stamp.returned_ns is not None:
                corridor.not_after(device_ns, stamp.returned_ns)
        return taken

    def write(self, limit: int) -> int:
        """Write at most `limit` rows whose times will not change any more, in order. Returns their number."""
        waiting = self.waiting
        left = limit
        while waiting and left:
            begin, end = waiting[0][2:4]
            if (begin is not None and not self.is_final(begin)) or (end is not None and not self.is_final(end)):
                break
            self._append(waiting.popleft())
            left -= 1
        return limit - left

    def _append(self, raw: RawOperation) -> None:
        opened = OpenOperation._make(raw)
        begin = None if opened.begin is None else self.host_time(opened.begin)
        end = None if opened.end is None else self.host_time(opened.end)
        if opened.end is not None:
            self.clock_faults += begin is None or end is None
        if opened.lane:
            self._copies.append(self._copy(opened, begin, end))
            return
        times: tuple[int | None, ...] = (None, None, None)
        if begin is not None and end is not None:
            times = self._span(opened, begin, end)
        lane, name, kind = opened.row
        self._spans.append((opened.step, lane, name, kind, 0, *times, opened.op))

    def _span(self, opened: OpenOperation, begin: Point, end: Point) -> tuple[int, int, int]:
        """From the begin stamp, or from the launch where the stream had nothing to do before it.

        In an idle stream the stamp before the operation fired long ago; the operation began about a launch latency
        after its first launch. How well that is known goes into the error.
        """
        known, kind = self._correction, opened.row[2]
        latency_ns = known.graph_latency_ns if kind == "graph" else known.kernel_latency_ns
        launched = opened.call_ns + min(opened.return_ns - opened.call_ns, known.launch_ns) + latency_ns
        err = max(begin[1], end[1])
        if begin[0] >= launched:
            return begin[0], max(end[0], begin[0]), err
        start = min(launched, max(end[0], opened.call_ns))
        return start, max(end[0], start), err + start - max(begin[0], opened.call_ns)

    def _copy(self, opened: OpenOperation, begin: Point | None, end: Point | None) -> Row:
        times: tuple[int | None, ...] = (None, None, None)
        queued = begin is not None and begin[0] - begin[1] > opened.return_ns
        if begin is not None and end is not None:
            size_bytes = opened.row[1]
            assert isinstance(size_bytes, int)
            times = self._queued(opened, begin, end) if queued else self._idle(opened.call_ns, begin, end, size_bytes)
        call = (opened.call_ns, opened.return_ns)
        return (opened.step, *opened.row, opened.lane, *call, *times, queued, opened.is_async, opened.op)

    def _queued(self, opened: OpenOperation, begin: Point, end: Point) -> tuple[int, int, int]:
        """The copy began when its engine took over. The end event is the engine's own, and so is a begin event behind
        another copy of the direction; behind a kernel it fires when the kernel ends.
        """
        known, direction = self._correction, opened.row[0]
        own = opened.begin is not None and opened.begin.engine == direction
        bias, err = known.queued_bias_ns, known.queued_err_ns
        if own:
            bias, err = known.profiled_bias_ns if opened.profiled else known.engine_bias_ns, known.engine_err_ns
        return min(begin[0] + bias, end[0]), end[0], begin[1] + err

    def _idle(self, call_ns: int, begin: Point, end: Point, size_bytes: int) -> tuple[int, int, int]:
        """It is not known that anything ran before it: it may have begun anywhere from the call (or the stamp before
        it, if that fired later) to the latest moment from which the fastest transfer still ends in time.
        """
        latest = end[0] - round(size_bytes / self._correction.peak_bytes_per_s * 1e9)
        earliest = min(max(call_ns, begin[0] - begin[1]), latest)
        return (earliest + latest) // 2, end[0], (latest - earliest + 1) // 2 + end[1]


UNTIMED = tuple(
    (table, column, "run without events around device operations")
    for table, column in (("spans", "start_ns"), ("copies", "start_ns"), ("phases", "span_ns"))
)
"""What `notes` are to a device without events."""


def notes(rows: DeviceRows, lost: int, unjoined: Iterable[str]) -> list[tuple[str, str, str]]:
    """(table, column, reason) for device times that are null, and for borders that do not say what they seem to."""
    found = []
    if rows.clock_faults:
        why = f"{rows.clock_faults} operations: no line fits the clock corridor, one of the clocks is at fault"
        found.append(("spans", "start_ns", why))
    if lost:
        found.append(("spans", "start_ns", f"{lost} events never fired"))
    found += [
        ("phases", "span_ns", f"side stream {stream} not joined: its work is not between the borders of the phase")
        for stream in sorted(set(unjoined))
    ]
    return found
