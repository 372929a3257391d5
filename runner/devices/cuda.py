"""The `cuda` device: real streams, events, copies and graphs. Nothing in a step synchronises but the waits asked for.

Device times come from events. An operation's borders are stamps on its stream; two neighbours share one, so a step
records few. Rows that need device times wait in a list until the clock corridor of their window is fitted
(`synchronize`, and whenever a window has closed); host times are those of the call.
A copy that found its stream idle has no point in time: its begin lies anywhere between the call and the end minus the
fastest transfer, so it carries that as its error, and `queued` is False.
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
from .base import CaptureFigures, Event, GraphKey, NoGraphMemory, StreamName, T, Work
from .calibration import calibration_of
from .cuda_events import EventTimeline, Stamp
from .cuda_graphs import CapturedGraph, GraphRecorder
from .cuda_memory import make_host_memory
from .cuda_rows import CopyCorrection, DeviceRows, OpenOperation
from .memory import tensor_bytes
from .streams import STREAMS, HappensBefore, StreamOrder

HOST_LANE = "host:main"
TIMED_COPY_BYTES = 16 * 1024
"""Shorter copies carry no event: below about 1 MiB an event pair cannot resolve them, and an event costs 2-3 us."""


class CudaDevice:
    """See runner.devices.base.Device. `correction` is what is known of timing copies on this GPU.

    `timing` False records no events: host times only (the probe's level "host").
    """

    name = "cuda"
    modelled = False

    def __init__(self, ledger: Ledger, correction: CopyCorrection, *, timing: bool = True) -> None:
        self.tensor_device = torch.device("cuda", torch.cuda.current_device())
        self.clock: Clock = MonotonicClock()
        self._ledger = ledger
        self._order = StreamOrder(ledger)
        self._known = HappensBefore()
        self._streams = {name: torch.cuda.Stream() for name in STREAMS}
        torch.cuda.set_stream(self._streams["compute"])
        self._host = make_host_memory()
        self._graphs: dict[GraphKey, CapturedGraph] = {}
        self._recorder = GraphRecorder()
        self.captures: list[CaptureFigures] = []
        self.events = EventTimeline()
        self.events.start(self._streams["compute"], self.clock.now_ns())
        self._rows = DeviceRows(ledger, self.events, correction)
        self._timing = timing
        self._marks: list[Stamp] = []
        self._border: dict[StreamName, Stamp | None] = dict.fromkeys(STREAMS)

    # Memory

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A zeroed device tensor."""
        return torch.zeros(tuple(shape), dtype=dtype, device=self.tensor_device)

    def host_tensor(self, shape: Sequence[int], dtype: torch.dtype, *, pinned: bool) -> torch.Tensor:
        """A zeroed host tensor; pageable, with the reason kept, once page-locked memory runs out."""
        return self._host.zeros(shape, dtype, pinned=pinned)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Asked of the storage, once for each."""
        return self._host.is_pinned(tensor)

    @property
    def pinned(self) -> bool:
        """See Device; turns False for good once page-locked memory runs out."""
        return self._host.pinned

    @property
    def pinned_reason(self) -> str:
        """See Device."""
        return self._host.reason

    # Copies

    def copy_to_device(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
        changed_bytes: int | None = None,
    ) -> int:
        """Enqueue the copy. Returns 0, and enqueues nothing, for an empty one."""
        kind = self._host.kind(src)
        return self._copy(dst, src, ("h2d", tensor_bytes(src), changed_bytes, kind, "device", buffer), stream)

    def copy_to_host(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
    ) -> int:
        """Enqueue the copy; into pageable memory the call returns when the data is there."""
        kind = self._host.kind(dst)
        return self._copy(dst, src, ("d2h", tensor_bytes(src), None, "device", kind, buffer), stream)

    # Launches and graphs

    def launch(
        self, name: str, fn: Callable[[], T], work: Work, *, stream: StreamName = "compute",
        consumes: Sequence[int] = (),
    ) -> T:
        """Run `fn` with `stream` current; all that it enqueues counts as one operation."""
        with self._on(stream):
            return self._timed(name, "kernel", fn, stream, consumes)

    def capture(self, key: GraphKey, fn: Callable[[], torch.Tensor]) -> None:
        """Capture `fn`; the event worker keeps away from the driver meanwhile."""
        refusal = ""
        try:
            with self.events.lock:
                self._graphs[key], figures = self._recorder.capture(key, fn)
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            refusal = str(error).splitlines()[0]
        if refusal:  # raised out here, where no frame of the capture holds its tensors any more
            torch.cuda.empty_cache()
            raise NoGraphMemory(refusal)
        self.captures.append(figures)

    def island(self, fn: Callable[[], None]) -> None:
        """Leave `fn` out of a piecewise capture; elsewhere simply run it."""
        self._recorder.island(fn)

    def captured(self, key: GraphKey) -> bool:
        """Whether `key` can be replayed."""
        return key in self._graphs

    def replay(self, key: GraphKey, work: Work, *, consumes: Sequence[int] = ()) -> torch.Tensor:
        """Replay on the compute stream."""
        if key not in self._graphs:
            raise UsageError(f"no graph was captured for {key}; capture it before the first step")
        return self._timed(f"graph.{key.tokens}", "graph", self._graphs[key].replay, "compute", consumes)

    # Order

    def record(self, stream: StreamName) -> Event:
        """An event behind everything on `stream`; its stamp doubles as a border."""
        stamp = self._stamp(stream)
        event = self._order.event(stream)
        return Event(stream, event.op, (stamp, event))

    def stream_wait(self, stream: StreamName, event: Event) -> None:
        """Later operations of `stream` start after `event`."""
        stamp, plain = _parts(event)
        if stamp.event is not None:
            self._streams[stream].wait_event(stamp.event)
        self._border[stream] = None
        self._order.wait(stream, plain)

    def host_wait(self, event: Event, reason: str) -> None:
        """Block until `event` has fired. The return is an upper bound for the device clock."""
        stamp, plain = _parts(event)
        call_ns = self.clock.now_ns()
        pending = stamp.event
        if pending is not None:
            pending.synchronize()
        return_ns = self.clock.now_ns()
        if pending is not None:
            stamp.returned_ns = return_ns
        self._ledger.add("waits", HOST_LANE, reason, plain.op, call_ns, return_ns)
        self._known.see(plain.op)

    def host_has_seen(self, op: int) -> bool:
        """Whether a host wait proves that `op` ended."""
        return self._known.seen(op)

    def is_done(self, op: int) -> bool:
        """Whether `op` is known to have ended, or every stream is idle."""
        return self._known.seen(op) or all(stream.query() for stream in self._streams.values())

    # Timing

    def mark(self) -> int | None:
        """A stamp on the compute stream; the last one again when nothing was enqueued since."""
        if not self._timing:
            return None
        self._marks.append(self._at_border("compute"))
        return len(self._marks) - 1

    def resolve_mark(self, mark: int) -> tuple[int, int] | None:
        """Known once the clock corridor of its window is fitted."""
        self._rows.emit()
        return self._rows.host_time(self._marks[mark])

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
        torch.cuda.synchronize()
        self._ledger.add("waits", HOST_LANE, "synchronize", 0, call_ns, self.clock.now_ns())
        for stream in STREAMS:
            self._known.see(self._order.event(stream).op)
        self.events.resolve(self.clock.now_ns())
        self._rows.emit(final=True)

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

    # Parts

    def _on(self, stream: StreamName) -> AbstractContextManager[object]:
        return nullcontext() if stream == "compute" else torch.cuda.stream(self._streams[stream])

    def _copy(self, dst: torch.Tensor, src: torch.Tensor, what: tuple[object, ...], stream: StreamName) -> int:
        size_bytes = what[1]
        assert isinstance(size_bytes, int)
        if not size_bytes:
            return 0
        op = self._ledger.new_correlation()
        timed = self._timing and size_bytes >= TIMED_COPY_BYTES
        begin = self._at_border(stream) if timed else None
        call_ns = self.clock.now_ns()
        with self._on(stream):
            dst.copy_(src, non_blocking=True)
        return_ns = self.clock.now_ns()
        self._enqueued(op, stream, ())
        end = self._at_border(stream) if timed else None
        is_async = "pageable" not in what
        opened = OpenOperation(self._ledger.step, op, begin, end, call_ns, return_ns)
        self._rows.add_copy(opened, what, stream, is_async)
        return op

    def _timed(self, name: str, kind: str, fn: Callable[[], T], stream: StreamName, consumes: Sequence[int]) -> T:
        op = self._ledger.new_correlation()
        begin = self._at_border(stream) if self._timing else None
        call_ns = self.clock.now_ns()
        result = fn()
        return_ns = self.clock.now_ns()
        self._enqueued(op, stream, consumes)
        end = self._at_border(stream) if self._timing else None
        self._ledger.add("spans", HOST_LANE, name, "launch", None, call_ns, return_ns, 0, op)
        self._rows.add_span(OpenOperation(self._ledger.step, op, begin, end, call_ns, return_ns), name, kind, stream)
        return result

    def _enqueued(self, op: int, stream: StreamName, consumes: Sequence[int]) -> None:
        self._known.enqueue(op, stream, self._order.enqueue(stream, op, consumes))
        self._border[stream] = None

    def _stamp(self, stream: StreamName) -> Stamp:
        stamp = self.events.record(stream, self._streams[stream], self.clock.now_ns())
        self._border[stream] = stamp
        return stamp

    def _at_border(self, stream: StreamName) -> Stamp:
        """The stamp behind the last operation: recorded now, unless nothing came since the last one."""
        return self._border[stream] or self._stamp(stream)


def make_cuda(ledger: Ledger, *, timing: bool = True) -> CudaDevice:
    """The current GPU. Copies are corrected by the bundled calibration of the same GPU, if there is one.

    Raises UsageError where there is no GPU.
    """
    if not torch.cuda.is_available():
        raise UsageError("device 'cuda' needs an NVIDIA GPU and a CUDA build of torch; use --device sim or cpu")
    known = calibration_of(torch.cuda.get_device_name())
    correction = CopyCorrection()
    if known is not None:
        correction = CopyCorrection(
            queued_bias_ns=known.event_bias_ns.queued, peak_bytes_per_s=known.peak_copy_bytes_per_s
        )
    return CudaDevice(ledger, correction, timing=timing)


def _parts(event: Event) -> tuple[Stamp, Event]:
    assert isinstance(event.handle, tuple), "an event of another device"
    stamp, plain = event.handle
    return stamp, plain
