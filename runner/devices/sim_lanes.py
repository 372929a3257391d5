"""Virtual streams of the `sim` device: what the host pays for a call, and when the device side runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...instrumentation.probe.ledger import Ledger
from ...instrumentation.queues import OpTimes, QueueModel, host_wait_return
from .base import Event, StreamName
from .calibration import Calibration
from .costs import Cost
from .sim_clock import SimClock
from .streams import STREAMS, HappensBefore, StreamOrder, event_ops, lane_of

HOST_LANE = "host:main"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """One operation: its correlation, its call on the host, its run on the device.

    `queued` is whether the stream still had work when the call ended.
    """

    op: int
    call_start_ns: int
    call_end_ns: int
    times: OpTimes
    queued: bool


class SimLanes:
    """Streams in virtual time. The caller holds the clock paused; every method charges it what the call costs."""

    def __init__(self, ledger: Ledger, clock: SimClock, calibration: Calibration) -> None:
        self._ledger = ledger
        self._clock = clock
        self._calibration = calibration
        self._queues = QueueModel()
        self._order = StreamOrder(ledger)
        self._known = HappensBefore()

    def enqueue(self, stream: StreamName, cost: Cost, consumes: Sequence[int] = ()) -> Enqueued:
        """Charge the call and append the operation to `stream`; writes its `edges` rows."""
        op = self._ledger.new_correlation()
        call_start_ns = self._clock.now_ns()
        self._clock.advance(cost.host_ns)
        call_end_ns = self._clock.now_ns()
        tail_ns = self._queues.lane_end(stream)
        # What the host has seen ended before now; it can bind nothing and may be forgotten already.
        waits = [awaited for awaited in self._order.enqueue(stream, op, consumes) if not self._known.seen(awaited)]
        self._known.enqueue(op, stream, waits)
        times = self._queues.enqueue(op, stream, call_end_ns + cost.latency_ns, cost.device_ns, waits)
        queued = tail_ns is not None and tail_ns > call_end_ns
        return Enqueued(op, call_start_ns, call_end_ns, times, queued)

    def launch(
        self, name: str, cost: Cost, stream: StreamName, *, kind: str = "kernel", consumes: Sequence[int] = (),
    ) -> int:
        """Enqueue one kernel or graph, with a launch span on the host lane and a device span. Returns its op."""
        done = self.enqueue(stream, cost, consumes)
        add = self._ledger.add
        add("spans", HOST_LANE, name, "launch", None, done.call_start_ns, done.call_end_ns, 0, done.op)
        add("spans", lane_of(stream), name, kind, 0, done.times.start_ns, done.times.end_ns, 0, done.op)
        return done.op

    def record(self, stream: StreamName) -> Event:
        """An event behind everything on `stream`."""
        self._clock.advance(self._calibration.host_cost_ns.event_record)
        return self._order.event(stream)

    def stream_wait(self, stream: StreamName, event: Event) -> None:
        """The next operation of `stream` starts after `event`; its `edges` row comes with that operation."""
        self._clock.advance(self._calibration.host_cost_ns.stream_wait_event)
        self._order.wait(stream, event)

    def host_wait(self, event: Event, reason: str) -> None:
        """Block the virtual host until `event` is done; a `waits` row for each operation that stands behind it."""
        for op in event_ops(event) or (0,):
            self.wait_for(op, reason)

    def wait_for(self, op: int, reason: str) -> None:
        """Block the virtual host until `op` has ended, with a `waits` row. Op 0 has always ended."""
        call_ns = self._clock.now_ns()
        overhead_ns = self._calibration.host_cost_ns.event_synchronize
        return_ns = call_ns + overhead_ns
        if not self._known.seen(op):
            end_ns = self._queues.end_of(op)
            return_ns = host_wait_return(call_ns, end_ns, overhead_ns, self._calibration.sync_wakeup_ns)
        self._clock.jump_to(return_ns)
        self._ledger.add("waits", HOST_LANE, reason, op, call_ns, self._clock.now_ns())
        self.see(op)

    def see(self, op: int) -> None:
        """The host has proof that `op` ended."""
        for forgotten in self._known.see(op):
            self._queues.forget(forgotten)

    def see_all(self) -> None:
        """The host has proof that everything enqueued has ended."""
        for stream in STREAMS:
            self.see(self._order.event(stream).op)

    def seen(self, op: int) -> bool:
        """Whether the host has proof that `op` ended."""
        return self._known.seen(op)

    def follows(self, stream: StreamName, op: int) -> bool:
        """Whether the next operation of `stream` starts after `op` by order."""
        return self._known.orders(op, stream, self._order.pending(stream))

    def ended(self, op: int) -> bool:
        """Whether `op` has ended by the host's present time, proof or not."""
        return self._known.seen(op) or self._queues.end_of(op) <= self._clock.now_ns()

    def mark_ns(self, stream: StreamName) -> int:
        """When a timing event recorded on `stream` now would fire, in ns."""
        ready_ns = self._clock.now_ns() + self._calibration.launch_latency_ns.kernel
        waits = [awaited for awaited in self._order.pending(stream) if not self._known.seen(awaited)]
        return self._queues.next_start(stream, ready_ns, waits)[0]

    def last_op(self) -> int:
        """The operation that ends last of all, 0 if none was enqueued."""
        ends = [(self._queues.lane_end(stream), self._order.event(stream).op) for stream in STREAMS]
        return max(((end, op) for end, op in ends if end is not None), default=(0, 0))[1]
