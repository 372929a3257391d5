"""The `sim` device: tokens really computed on the CPU, host time measured or declared, the device in virtual time.

Every door method stops the host clock, does its arithmetic and its books, and charges the calibrated host cost of the
call instead. What runs between two calls is the real Python and NumPy of the runner. Not modelled: contention of copies
for the bus or of kernels for memory; a full launch queue; the cost of is_done, of marks and of allocations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch

from ...errors import UsageError
from ...instrumentation.clock import Clock
from ...instrumentation.probe.ledger import Ledger
from .base import CaptureFigures, Event, GraphKey, StreamName, T, Work
from .costs import CostModel
from .memory import PageLocked, lazy_zeros
from .sim_clock import SimClock
from .sim_lanes import Enqueued, SimLanes
from .streams import lane_of


class SimDevice:
    """See runner.devices.base.Device. `clock` is a MeasuredSimClock or a DeclaredClock; costs come from `costs`."""

    name = "sim"
    modelled = True
    maps_host = True
    pinned = True
    pinned_reason = ""

    def __init__(self, ledger: Ledger, clock: SimClock, costs: CostModel) -> None:
        self.tensor_device = torch.device("cpu")
        self.clock: Clock = clock
        self._sim_clock = clock
        self.costs = costs
        self._ledger = ledger
        self._lanes = SimLanes(ledger, clock, costs.calibration)
        self._locked = PageLocked()
        self._graphs: dict[GraphKey, tuple[Callable[[], torch.Tensor], torch.Tensor]] = {}
        self._marks: list[int] = []
        self.captures: list[CaptureFigures] = []

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A zeroed tensor that stands for device memory."""
        with self._sim_clock:
            return lazy_zeros(shape, dtype)

    def host_tensor(self, shape: Sequence[int], dtype: torch.dtype, *, pinned: bool) -> torch.Tensor:
        """A zeroed host tensor; a pinned one costs the host a warm allocation."""
        with self._sim_clock:
            if not pinned:
                return torch.zeros(tuple(shape), dtype=dtype)
            self._sim_clock.advance(self.costs.calibration.host_cost_ns.pinned_alloc)
            return self._locked.zeros(shape, dtype)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's storage was asked for as pinned."""
        return self._locked.holds(tensor)

    def map_host(self, host: torch.Tensor) -> torch.Tensor:
        """The tensor itself; what a kernel pays for reading host memory is not modelled."""
        return host

    def copy_to_device(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
        changed_bytes: int | None = None,
    ) -> int:
        """Move the data at once, charge a copy on `stream`. Returns 0, and enqueues nothing, for an empty copy.

        A pageable source blocks the host for the curve's blocked time; above `pageable_waits_above_bytes` it also
        waits for its stream.
        """
        with self._sim_clock:
            size_bytes = src.nbytes
            if not size_bytes:
                return 0
            kind = self._locked.kind(src)
            cost = self.costs.copy("h2d_pinned" if kind == "pinned" else "h2d_pageable", size_bytes)
            dst.copy_(src)
            done = self._lanes.enqueue(stream, cost)
            memory = ("h2d", size_bytes, changed_bytes, kind, "device", buffer)
            self._write_copy(memory, stream, done, is_async=kind == "pinned")
            limit = self.costs.calibration.pageable_waits_above_bytes
            if kind == "pageable" and limit is not None and size_bytes > limit:
                self._lanes.wait_for(done.op, f"pageable:{buffer}")
            return done.op

    def copy_to_host(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
    ) -> int:
        """Move the data at once, charge a copy on `stream`; into pageable memory the host waits for its end."""
        with self._sim_clock:
            size_bytes = src.nbytes
            if not size_bytes:
                return 0
            cost = self.costs.copy("d2h_pinned", size_bytes)
            kind = self._locked.kind(dst)
            dst.copy_(src)
            done = self._lanes.enqueue(stream, cost)
            memory = ("d2h", size_bytes, None, "device", kind, buffer)
            self._write_copy(memory, stream, done, is_async=kind == "pinned")
            if kind == "pageable":
                self._lanes.wait_for(done.op, f"pageable:{buffer}")
            return done.op

    def launch(
        self, name: str, fn: Callable[[], T], work: Work, *, stream: StreamName = "compute",
        consumes: Sequence[int] = (),
    ) -> T:
        """Run `fn` and charge it: one operation, or one a layer for work of kind `forward`."""
        with self._sim_clock:
            if work.kind == "forward":
                costs = self.costs.eager_layers(work)
                names = [f"{name}.{layer}" for layer in range(len(costs))]
            else:
                costs, names = (self.costs.operation(work),), [name]
            result = fn()
            kind = "memset" if work.kind == "fill" else "kernel"
            for part, cost in zip(names, costs, strict=True):
                self._lanes.launch(part, cost, stream, kind=kind, consumes=consumes)
                consumes = ()  # the first operation reads first
            return result

    def capture(self, key: GraphKey, fn: Callable[[], torch.Tensor]) -> None:
        """Run `fn` once for the tensor that every replay will return. Refuses sizes that were not calibrated."""
        with self._sim_clock:
            self.costs.stack_ns(key.tokens)
            self._graphs[key] = (fn, fn())

    def island(self, fn: Callable[[], None]) -> None:
        """Run `fn`: a graph here is a function, which runs its islands at each replay by itself."""
        fn()

    def captured(self, key: GraphKey) -> bool:
        """Whether `key` can be replayed."""
        return key in self._graphs

    def replay(self, key: GraphKey, work: Work, *, consumes: Sequence[int] = ()) -> torch.Tensor:
        """Run the captured function into the captured output; charge one graph, or a graph and attention a layer."""
        with self._sim_clock:
            if key not in self._graphs:
                raise UsageError(f"no graph was captured for {key}; capture it before the first step")
            fn, output = self._graphs[key]
            result = fn()
            if result is not output:
                output.copy_(result)
            if key.mode == "full":
                cost = self.costs.full_graph(key.tokens, work)
                self._lanes.launch(f"graph.{key.tokens}", cost, "compute", kind="graph", consumes=consumes)
            else:
                self._replay_pieces(key, work, consumes)
            return output

    def record(self, stream: StreamName) -> Event:
        """An event behind everything enqueued on `stream` so far."""
        with self._sim_clock:
            return self._lanes.record(stream)

    def stream_wait(self, stream: StreamName, event: Event) -> None:
        """Later operations of `stream` start after `event`."""
        with self._sim_clock:
            self._lanes.stream_wait(stream, event)

    def host_wait(self, event: Event, reason: str) -> None:
        """Move the host clock to where the wait returns."""
        with self._sim_clock:
            self._lanes.host_wait(event, reason)

    def host_has_seen(self, op: int) -> bool:
        """Whether a host wait proves that `op` ended."""
        return self._lanes.seen(op)

    def stream_follows(self, stream: StreamName, op: int) -> bool:
        """Whether stream order, or a wait, keeps the next operation of `stream` behind `op`."""
        return self._lanes.follows(stream, op)

    def is_done(self, op: int) -> bool:
        """Whether `op` has ended at the host's present time."""
        return self._lanes.ended(op)

    def mark(self) -> int | None:
        """A timing event on the compute stream. Free of host cost, so that measuring does not change the model."""
        with self._sim_clock:
            self._marks.append(self._lanes.mark_ns("compute"))
            return len(self._marks) - 1

    def resolve_mark(self, mark: int, asked_ns: int = 0) -> tuple[int, int] | None:
        """(time_ns, 0): modelled times have no error, are known at once, and lie behind the asking anyway."""
        return self._marks[mark], 0

    def paused(self) -> AbstractContextManager[None]:
        """Stop the host clock for the block."""
        return self._sim_clock

    def idle_until(self, time_ns: int) -> None:
        """Jump to `time_ns` if that lies ahead."""
        self._sim_clock.jump_to(time_ns)

    def synchronize(self) -> None:
        """Wait for everything enqueued on any stream; a `waits` row with the reason `synchronize`."""
        with self._sim_clock:
            op = self._lanes.last_op()
            if op:
                self._lanes.wait_for(op, "synchronize")
            self._lanes.see_all()

    def activate(self) -> None:
        """Nothing is shared."""

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """The recording knows what this kind of device has not got."""
        return ()

    def close(self) -> None:
        """Nothing outlives the object."""

    def _write_copy(self, memory: tuple[object, ...], stream: StreamName, done: Enqueued, *, is_async: bool) -> None:
        """`memory` is direction, size_bytes, changed_bytes, src_kind, dst_kind, buffer: the row's first columns."""
        times = (done.call_start_ns, done.call_end_ns, done.times.start_ns, done.times.end_ns, 0)
        self._ledger.add("copies", *memory, lane_of(stream), *times, done.queued, is_async, done.op)

    def _replay_pieces(self, key: GraphKey, work: Work, consumes: Sequence[int]) -> None:
        for layer, (piece, attention) in enumerate(self.costs.piecewise_layers(key.tokens, work)):
            self._lanes.launch(f"graph.{key.tokens}.{layer}", piece, "compute", kind="graph", consumes=consumes)
            self._lanes.launch(f"attention.{layer}", attention, "compute")
            consumes = ()
