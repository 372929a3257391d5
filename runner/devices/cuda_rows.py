"""Rows of the `cuda` device that wait for device times, and the clock corridor that gives them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ...instrumentation.device_clock import ClockCorridor
from ...instrumentation.probe.ledger import Ledger
from .base import StreamName
from .cuda_events import EventTimeline, Stamp
from .streams import lane_of


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """One enqueued operation: its step, its correlation, its borders (None: not timed), its call on the host."""

    step: int | None
    op: int
    begin: Stamp | None
    end: Stamp | None
    call_ns: int
    return_ns: int


@dataclass(frozen=True, slots=True)
class _Copy:
    open: OpenOperation
    what: tuple[object, ...]  # direction, size_bytes, changed_bytes, src_kind, dst_kind, buffer
    lane: str
    is_async: bool


@dataclass(frozen=True, slots=True)
class _Span:
    open: OpenOperation
    name: str
    kind: str
    lane: str


@dataclass(frozen=True, slots=True)
class CopyCorrection:
    """What a calibration knows of timing copies: the queued pair's excess, its spread, the fastest transfer."""

    queued_bias_ns: int = 0
    queued_err_ns: int = 1_500
    peak_bytes_per_s: float = float("inf")


class DeviceRows:
    """Holds rows back until their window of the device clock is fitted, then writes them into the ledger."""

    def __init__(self, ledger: Ledger, events: EventTimeline, correction: CopyCorrection) -> None:
        self.corridor = ClockCorridor()
        self.clock_faults = 0
        self._ledger = ledger
        self._events = events
        self._correction = correction
        self._waiting: deque[_Copy | _Span] = deque()
        self._closed = 0  # windows below this number are fitted for good

    def add_copy(self, opened: OpenOperation, what: tuple[object, ...], stream: StreamName, is_async: bool) -> None:
        """A copy was enqueued; `what` is the row's columns from direction to buffer."""
        self._waiting.append(_Copy(opened, what, lane_of(stream), is_async))

    def add_span(self, opened: OpenOperation, name: str, kind: str, stream: StreamName) -> None:
        """A kernel, a graph or an eager forward was enqueued."""
        self._waiting.append(_Span(opened, name, kind, lane_of(stream)))

    def host_time(self, stamp: Stamp) -> tuple[int, int] | None:
        """(time_ns, err_ns) on the host's clock; None before the stamp's window is closed, or on a clock fault."""
        device_ns = stamp.device_ns
        if device_ns is None or self.corridor.window(device_ns) >= self._closed:
            return None
        return self.corridor.to_host(device_ns)

    def emit(self, *, final: bool = False) -> None:
        """Take in what the worker resolved; write the rows of windows that are over (all of them when `final`)."""
        newest = self._take_stamps()
        if newest is None and not final:
            return
        current = self.corridor.window(newest) if newest is not None else self._closed
        if not final and current <= self._closed:
            return
        self.corridor.fit(since=self._closed)
        self._closed = current + 1 if final else current
        while self._waiting and self._write(self._waiting[0], final):
            self._waiting.popleft()

    def _take_stamps(self) -> int | None:
        newest = None
        resolved = self._events.resolved
        while resolved:
            stamp = resolved.popleft()
            newest = stamp.device_ns
            assert newest is not None
            self.corridor.not_before(newest, stamp.recorded_ns)
            if stamp.returned_ns is not None:
                self.corridor.not_after(newest, stamp.returned_ns)
        return newest

    def _write(self, row: _Copy | _Span, final: bool) -> bool:
        """Write one row; False when its times are still to come."""
        opened = row.open
        begin = end = None
        if opened.begin is not None and opened.end is not None:
            begin, end = self.host_time(opened.begin), self.host_time(opened.end)
            if (begin is None or end is None) and not final:
                return False
        if isinstance(row, _Copy):
            self._write_copy(row, begin, end)
        elif begin is not None and end is not None:
            times = (begin[0], end[0], max(begin[1], end[1]))
            self._ledger.rows["spans"].append((opened.step, row.lane, row.name, row.kind, 0, *times, opened.op))
        else:
            self.clock_faults += opened.begin is not None
            self._ledger.rows["spans"].append(
                (opened.step, row.lane, row.name, row.kind, 0, None, None, None, opened.op)
            )
        return True

    def _write_copy(self, row: _Copy, begin: tuple[int, int] | None, end: tuple[int, int] | None) -> None:
        opened = row.open
        times: tuple[int | None, ...] = (None, None, None)
        queued = None
        if begin is not None and end is not None:
            queued = begin[0] > opened.return_ns
            size_bytes = row.what[1]
            assert isinstance(size_bytes, int)
            times = self._queued(begin, end) if queued else self._idle(opened.call_ns, end, size_bytes)
        call = (opened.call_ns, opened.return_ns)
        self._ledger.rows["copies"].append(
            (opened.step, *row.what, row.lane, *call, *times, queued, row.is_async, opened.op)
        )

    def _queued(self, begin: tuple[int, int], end: tuple[int, int]) -> tuple[int, int, int]:
        """Both events ran on a busy stream: the pair reads long by a constant, half of it on either side."""
        bias = self._correction.queued_bias_ns
        start_ns = begin[0] + bias // 2
        return start_ns, max(end[0] - (bias - bias // 2), start_ns), begin[1] + self._correction.queued_err_ns

    def _idle(self, call_ns: int, end: tuple[int, int], size_bytes: int) -> tuple[int, int, int]:
        """The begin event fired before the copy was submitted: it may have begun anywhere from the call on."""
        latest = end[0] - round(size_bytes / self._correction.peak_bytes_per_s * 1e9)
        earliest = min(call_ns, latest)
        return (earliest + latest) // 2, end[0], (latest - earliest + 1) // 2 + end[1]
