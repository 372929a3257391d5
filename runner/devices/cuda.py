"""The `cuda` device: real streams, events, copies and graphs. Nothing in a step synchronises but the waits asked for.

Device times come from events. An operation's borders are stamps on its stream, neighbours share one. Rows that need
device times wait until the clock corridor of their window is fitted; both are done in small portions while the host
waits for the device anyway, and to the end in `synchronize`. Host times are the call's. A copy of which no event shows
that it ran behind other work has no point in time: its begin lies anywhere between the call and the end minus the
fastest transfer, so it carries that as its error, and `queued` is False. Copies queued behind a kernel are sent
with a primer ahead (see cuda_engine).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

import torch

from ...errors import UsageError
from ...instrumentation.clock import Clock, MonotonicClock
from ...instrumentation.probe.ledger import Ledger
from .base import CaptureFigures, Event, GraphKey, StreamName, T, Work
from .cuda_engine import ENGINE_BYTES, Primer, under_cupti
from .cuda_events import BACKLOG, EventTimeline
from .cuda_graphs import Graphs
from .cuda_idle import IdleWork, Job
from .cuda_lanes import Stamp, StampLane, UntimedStamp
from .cuda_marks import make_marks
from .cuda_rows import UNTIMED, CopyCorrection, DeviceRows, notes
from .cuda_streams import give_streams, take_streams
from .cuda_tensors import CudaTensors
from .streams import STREAMS, HappensBefore, StreamOrder, lane_of

HOST_LANE = "host:main"
TIMED_COPY_BYTES = 16 * 1024
"""Shorter copies carry no event: below about 1 MiB an event pair cannot resolve them, and an event costs 2-3 us."""
PORTION = 32
"""Stamps read, and rows written, at once where too much was put off: about three steps' worth."""


class CudaDevice(CudaTensors):
    """See runner.devices.base.Device. `correction` is what is known of timing copies on this GPU.

    `timing` False records no events: host times only (the probe's level "host").
    """

    name = "cuda"
    modelled = False

    def __init__(self, ledger: Ledger, correction: CopyCorrection, *, timing: bool = True) -> None:
        super().__init__()
        self.clock: Clock = MonotonicClock()
        self._ledger = ledger
        self._order = StreamOrder(ledger)
        self._known = HappensBefore()
        self._streams = take_streams()
        torch.cuda.set_stream(self._streams["compute"])
        self._graphs = Graphs()
        self.captures: list[CaptureFigures] = self._graphs.figures
        self.events = EventTimeline(self.tensor_device)
        self.events.start(self._streams["compute"])
        self._lanes = {name: self.events.lane(stream, lane_of(name)) for name, stream in self._streams.items()}
        self._rows = DeviceRows(ledger, self.events, correction)
        self._timing = timing
        self._idle = IdleWork(self.clock.now_ns)
        ledger.before_reading(self._idle.catch_up)
        for job in (self.events.settle, self._rows.take, self._rows.write):
            self._idle.add(job)
        self._marks = make_marks(self._lanes["compute"], self._rows, self.clock)
        self._marks.closed = not timing
        self.mark = self._marks.take
        self._primer = Primer(self.tensor_device)
        self._spans = ledger.table("spans")

    # Copies

    def copy_to_device(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
        changed_bytes: int | None = None,
    ) -> int:
        """Enqueue the copy. Returns 0, and enqueues nothing, for an empty one."""
        kind = self._host.kind(src)
        return self._copy(dst, src, ("h2d", src.nbytes, changed_bytes, kind, "device", buffer), stream)

    def copy_to_host(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
    ) -> int:
        """Enqueue the copy; into pageable memory the call returns when the data is there."""
        kind = self._host.kind(dst)
        return self._copy(dst, src, ("d2h", src.nbytes, None, "device", kind, buffer), stream)

    # Launches and graphs

    def launch(
        self, name: str, fn: Callable[[], T], work: Work, *, stream: StreamName = "compute",
        consumes: Sequence[int] = (),
    ) -> T:
        """Run `fn` with `stream` current; all that it enqueues counts as one operation."""
        if stream == "compute":
            return self._timed(name, "kernel", fn, stream, consumes)
        with torch.cuda.stream(self._streams[stream]):
            return self._timed(name, "kernel", fn, stream, consumes)

    def capture(self, key: GraphKey, fn: Callable[[], torch.Tensor]) -> None:
        """Capture `fn`; whoever reads events keeps away from the driver meanwhile, and no mark is taken."""
        self._marks.closed = True
        try:
            with self.events.lock:
                self._graphs.capture(key, fn)
        finally:
            self._marks.closed = not self._timing

    def island(self, fn: Callable[[], None]) -> None:
        """Leave `fn` out of a piecewise capture; elsewhere simply run it."""
        self._graphs.island(fn)

    def captured(self, key: GraphKey) -> bool:
        """Whether `key` can be replayed."""
        return key in self._graphs

    def replay(self, key: GraphKey, work: Work, *, consumes: Sequence[int] = ()) -> torch.Tensor:
        """Replay on the compute stream."""
        return self._timed(f"graph.{key.tokens}", "graph", self._graphs.replay_of(key), "compute", consumes)

    # Order

    def activate(self) -> None:
        """Make this device's compute stream the current one: for a process with several of them on one GPU."""
        torch.cuda.set_stream(self._streams["compute"])

    def record(self, stream: StreamName) -> Event:
        """An event behind everything on `stream`; its stamp doubles as a border."""
        lane, now_ns = self._lanes[stream], self.clock.now_ns()
        stamp = lane.record(now_ns) if self._timing else lane.record_untimed()
        event = self._order.event(stream)
        return Event(stream, event.op, (lane, stamp, event))

    def stream_wait(self, stream: StreamName, event: Event) -> None:
        """Later operations of `stream` start after `event`."""
        _, stamp, plain = self._parts(event)
        pending = stamp.event  # the worker may take it away at any time: then it has fired
        if pending is not None:
            self._streams[stream].wait_event(pending)
        self._lanes[stream].border = None
        self._lanes[stream].wait_for_others()
        self._order.wait(stream, plain)
        if stream == "compute":
            self._marks.aside.discard(plain.stream)

    def host_wait(self, event: Event, reason: str) -> None:
        """Block until `event` has fired. The return is an upper bound for the device clock."""
        lane, stamp, plain = self._parts(event)
        call_ns = self.clock.now_ns()
        pending = stamp.event
        if pending is not None:
            if len(lane.waiting) > BACKLOG:
                self._idle.catch_up(PORTION)
            self._idle.wait(pending, reason)
        return_ns = self.clock.now_ns()
        if pending is not None:
            stamp.returned_ns = return_ns
            lane.done = max(lane.done, stamp.number)
            self._marks.waited(return_ns)
        self._ledger.add("waits", HOST_LANE, reason, plain.op, call_ns, return_ns)
        self._known.see(plain.op)

    def host_has_seen(self, op: int) -> bool:
        """Whether a host wait proves that `op` ended."""
        return self._known.seen(op)

    def stream_follows(self, stream: StreamName, op: int) -> bool:
        """Whether stream order, or a wait, keeps the next operation of `stream` behind `op`."""
        return self._known.orders(op, stream, self._order.pending(stream))

    def is_done(self, op: int) -> bool:
        """Whether `op` is known to have ended, or every stream is idle."""
        return self._known.seen(op) or all(stream.query() for stream in self._streams.values())

    # Timing

    def while_waiting(self, job: Job) -> None:
        """Have `job` done in small portions whenever the host has to wait for the device anyway."""
        self._idle.add(job)

    def resolve_mark(self, mark: Stamp, asked_ns: int = 0) -> tuple[int, int] | None:
        """Known once the clock corridor of its window is fitted."""
        return self._marks.resolve(mark, asked_ns)

    def paused(self) -> AbstractContextManager[None]:
        """Nothing: real time does not stop."""
        return nullcontext()

    def idle_until(self, time_ns: int) -> None:
        """Sleep until `time_ns` of this device's clock."""
        rest_ns = time_ns - self.clock.now_ns()
        if rest_ns > 0:
            time.sleep(rest_ns / 1e9)

    def synchronize(self) -> None:
        """Wait for everything and write every row that still waits for its device times."""
        call_ns = self.clock.now_ns()
        stamp = self._lanes["compute"].record(call_ns) if self._timing else None
        torch.cuda.synchronize()
        return_ns = self.clock.now_ns()
        if stamp is not None:
            stamp.returned_ns = return_ns  # a bound for the clock, also where no step ever waited
        self._ledger.add("waits", HOST_LANE, "synchronize", 0, call_ns, return_ns)
        for stream in STREAMS:
            self._known.see(self._order.event(stream).op)
        self.events.resolve(return_ns)
        self._rows.finish()

    def close(self) -> None:
        """End the event worker, drop the graphs, give cached memory back to the driver."""
        with suppress(RuntimeError):  # a kernel failed: whoever ran the step has heard of it
            self.synchronize()
        self.events.close()
        self._graphs.clear()
        gc.collect()  # captured functions refer to their executor, and it to this device
        with suppress(RuntimeError):
            torch.cuda.set_stream(torch.cuda.default_stream())
            torch.cuda.empty_cache()
            give_streams(self._streams)

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """(table, column, reason) for what events could not tell."""
        untimed = () if self._timing else UNTIMED
        return (*untimed, *notes(self._rows, self.events.lost, self._marks.unjoined))

    # Parts

    def _copy(self, dst: torch.Tensor, src: torch.Tensor, what: tuple[object, ...], stream: StreamName) -> int:
        size_bytes = what[1]
        assert isinstance(size_bytes, int)
        if not size_bytes:
            return 0
        op, lane, now_ns = self._ledger.new_correlation(), self._lanes[stream], self.clock.now_ns
        timed, pinned, direction = self._timing and size_bytes >= TIMED_COPY_BYTES, "pageable" not in what, str(what[0])
        if timed and pinned and lane.engine != direction and lane.has_kernels:  # behind copies alone it is in the way
            with torch.cuda.stream(self._streams[stream]):
                self._primer.enqueue(direction)
            lane.border, lane.engine = None, direction
        begin = lane.border or lane.record(now_ns()) if timed else lane.last
        call_ns = now_ns()
        if stream == "compute":
            dst.copy_(src, non_blocking=True)
        else:
            with torch.cuda.stream(self._streams[stream]):
                dst.copy_(src, non_blocking=True)
        return_ns = now_ns()
        lane.engine = direction if size_bytes >= ENGINE_BYTES else ""
        end = lane.border = lane.record(return_ns) if timed else None
        self._enqueued(op, stream, ())
        step, profiled = self._ledger.step, timed and under_cupti()
        self._rows.waiting.append((step, op, begin, end, call_ns, return_ns, what, lane.name, pinned, profiled))
        return op

    def _timed(self, name: str, kind: str, fn: Callable[[], T], stream: StreamName, consumes: Sequence[int]) -> T:
        ledger, lane, now_ns, timing = self._ledger, self._lanes[stream], self.clock.now_ns, self._timing
        op = ledger.new_correlation()
        begin = lane.begin() if timing else None
        if timing and begin is None:
            begin = lane.record(now_ns())
        call_ns = now_ns()
        result = fn()
        return_ns = now_ns()
        end = lane.record_work(return_ns) if timing else None
        self._enqueued(op, stream, consumes)
        step = ledger.step
        self._spans.append((step, HOST_LANE, name, "launch", None, call_ns, return_ns, 0, op))
        self._rows.waiting.append((step, op, begin, end, call_ns, return_ns, (lane.name, name, kind), "", True, False))
        return result

    def _enqueued(self, op: int, stream: StreamName, consumes: Sequence[int]) -> None:
        self._known.enqueue(op, stream, self._order.enqueue(stream, op, consumes))
        if stream != "compute":
            self._marks.aside.add(stream)

    def _parts(self, event: Event) -> tuple[StampLane, Stamp | UntimedStamp, Event]:
        assert isinstance(event.handle, tuple), "an event of another kind of device"
        lane, stamp, plain = event.handle
        if lane.timeline is not self.events:
            raise UsageError(f"an event of another device's stream {event.stream}: it cannot be waited for here")
        return lane, stamp, plain
