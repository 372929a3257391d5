"""Timing events of the `cuda` device: a pool, and what turns fired events into integers on one device axis.

Recording takes a pooled event and a cached stream object; nothing here waits. Fired events are read later: by the
owner when its rows are read, or in bounded portions while it has to wait for the device long enough anyway (`settle`),
and by a worker what nobody has read for a while.
Both hold `lock` while they talk to the driver: who captures a graph takes the lock, because an event query from another
thread would invalidate the capture.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from ...errors import UsageError

EVENT: type[torch.cuda.Event] = torch.cuda.Event.__bases__[0]
"""What torch.cuda.Event wraps in Python to fill in defaults; nobody here needs them, and each frame costs. The driver's
own call through ctypes is no cheaper: 2.2 us against 2.1 on an H200's host, with events and code as cold as in a step.
"""
POOL_SIZE = 4096
"""About as many as host-bound steps record between two readings of the ledger."""
REBASE_NS = 1_000_000_000
"""elapsed_time is a float32 of milliseconds: its step is 0.06 us at 1 s, 62 us at 600 s. So the anchor moves along."""
POLL_S = 0.05
WORKER_AGE_NS = 500_000_000
"""How long the worker leaves an event to its owner: while it reads it holds the interpreter's lock."""
WATCHDOG_NS = 60_000_000_000
BACKLOG = POOL_SIZE * 3 // 4
"""Stamps that may wait to be read before somebody has to read them, wait for the device or not."""


class Stamp(msgspec.Struct, gc=False, eq=False):
    """One recorded event. A struct is made in a quarter of the time; it refers to nothing that refers to it, which the
    garbage collector need not know then.

    `device_ns` is written once the event has fired and was read; then `event` is given up.

    recorded_ns  host time at which recording began: the event fired after it
    returned_ns  host time at which a wait for this event returned, if one did: the event fired before it
    lost         it did not fire within the watchdog's time
    host         (time_ns, err_ns) on the host's clock, once somebody has asked for it and it was known
    engine       the copy engine ("h2d", "d2h") that writes it, "" for any other: a copy of that direction behind it
                 begins at once, every other one when its engine has taken over
    number       its place on its lane
    """

    event: Any  # torch.cuda.Event | None
    recorded_ns: int
    number: int
    engine: str
    device_ns: int | None = None
    returned_ns: int | None = None
    host: tuple[int, int] | None = None
    lost: bool = False


class UntimedStamp:
    """An event that nobody will read. It goes back to the pool when nobody holds the stamp any more.

    Hazard: not earlier, for a wait on an event that was recorded again would wait for the later work.
    """

    __slots__ = ("_pool", "event", "number", "returned_ns")

    def __init__(self, event: torch.cuda.Event, pool: deque[torch.cuda.Event]) -> None:
        self.event = event
        self.number = 0
        self.returned_ns: int | None = None
        self._pool = pool

    def __del__(self) -> None:
        self._pool.append(self.event)


class StampLane:
    """Stamps of one stream, in recording order.

    name     of the lane in a recording
    border   the stamp behind the last operation, None if nothing was recorded behind it
    last     the latest stamp, operations behind it or not
    waiting  stamps that nobody has read yet
    done     number of a stamp that is known to have fired, with all before it: somebody waited for it
    engine   the copy engine ("h2d", "d2h") that ran the last operation, "" when another one did
    kernels  number of the stamp behind the last operation that was no copy, or behind the last wait for another stream
    """

    __slots__ = (
        "_number", "_pooled", "_stream", "_wait", "border", "done", "engine", "kernels", "last", "name", "timeline",
        "waiting",
    )  # fmt: skip

    def __init__(self, stream: torch.cuda.Stream, timeline: EventTimeline, name: str) -> None:
        self.timeline = timeline
        self.name = name
        self.border: Stamp | None = None
        self.last: Stamp | None = None
        self.waiting: deque[Stamp] = deque()
        self.done = 0
        self.engine = ""
        self.kernels = 0
        self._number = 0
        self._stream = stream
        self._pooled, self._wait = timeline.pool.pop, self.waiting.append

    @property
    def has_kernels(self) -> bool:
        """Whether what comes next may have to wait for more than copies, as far as the host knows."""
        return self.kernels > self.done

    @property
    def is_idle(self) -> bool:
        """Whether all that was stamped is known to have fired, and what comes next waits for nobody else."""
        return self.done >= self._number and self.done >= self.kernels

    def wait_for_others(self) -> None:
        """What comes next waits for another stream, until the next stamp has fired."""
        self.kernels = self._number + 1

    def record(self, now_ns: int) -> Stamp:
        """A stamp behind everything on the stream. A fresh event is made when the pool runs dry: never a reuse."""
        self._number = number = self._number + 1
        try:
            event = self._pooled()  # the one that was used last: its memory is near
        except IndexError:
            event = self.timeline.event_type(enable_timing=True)
        event.record(self._stream)
        self.border = self.last = stamp = Stamp(event, now_ns, number, self.engine)
        self._wait(stamp)
        return stamp

    def record_untimed(self) -> UntimedStamp:
        """The same for a device that takes no times: something to wait for, and nothing to read."""
        timeline = self.timeline
        event = timeline.pool.pop() if timeline.pool else timeline.event_type(enable_timing=True)
        event.record(self._stream)
        return UntimedStamp(event, timeline.pool)


@dataclass(slots=True)
class _Anchor:
    event: torch.cuda.Event
    device_ns: int


class EventTimeline:
    """Device times of the stamps of one device's streams. Device time 0 is the first event of all.

    `event_type` is for tests without a GPU. Raises UsageError for a stream of another device: times of two devices
    have no common axis.
    """

    def __init__(
        self, device: torch.device, event_type: type[torch.cuda.Event] = EVENT, *, worker: bool = True
    ) -> None:  # fmt: skip
        self.lock = threading.Lock()
        self.event_type = event_type
        self.pool: deque[torch.cuda.Event] = deque(event_type(enable_timing=True) for _ in range(POOL_SIZE))
        self.resolved: deque[Stamp] = deque()
        """Stamps with a device time, for the owner of the clock corridor to consume."""
        self.lost = 0
        self._device = device
        self._lanes: list[StampLane] = []
        self._anchor: _Anchor | None = None
        self._stop = threading.Event()
        self._worker = threading.Thread(target=self._run, name="stepscope-events", daemon=True) if worker else None
        if self._worker is not None:
            self._worker.start()

    def lane(self, stream: torch.cuda.Stream, name: str = "") -> StampLane:
        """The lane of a stream; to be made once for each."""
        if stream.device != self._device:
            raise UsageError(f"stream of {stream.device} on the timeline of {self._device}: give it one of its own")
        lane = StampLane(stream, self, name)
        self._lanes.append(lane)
        return lane

    def start(self, stream: torch.cuda.Stream) -> None:
        """Record the first anchor and wait for it. Once, before the first step."""
        event = self.event_type(enable_timing=True)
        event.record(stream)
        event.synchronize()
        self._anchor = _Anchor(event, 0)

    def settle(self, limit: int) -> int:
        """Read at most `limit` stamps that are known to have fired, without asking any; nothing while others read."""
        if not self.lock.acquire(blocking=False):
            return 0
        left = limit
        try:
            for lane in self._lanes:
                waiting = lane.waiting
                while left and waiting and waiting[0].number <= lane.done:
                    left -= 1
                    self._take(waiting.popleft())
        finally:
            self.lock.release()
        return limit - left

    def resolve(self, now_ns: int) -> None:
        """Read every event that has fired: for when the device is idle."""
        self._resolve(now_ns, 0)

    def _resolve(self, now_ns: int, age_ns: int) -> None:
        with self.lock:
            for lane in self._lanes:
                self._drain(lane, now_ns, age_ns)

    def _drain(self, lane: StampLane, now_ns: int, age_ns: int) -> None:
        waiting = lane.waiting
        while waiting:
            stamp = waiting[0]
            if age_ns and now_ns - stamp.recorded_ns < age_ns:
                return
            assert stamp.event is not None, "a stamp that waits to be read has its event"
            if stamp.number <= lane.done or stamp.event.query():
                self._take(waiting.popleft())
            elif now_ns - stamp.recorded_ns > WATCHDOG_NS:
                stamp.lost = True
                self.lost += 1
                waiting.popleft()
            else:
                return

    def _take(self, stamp: Stamp) -> None:
        event, anchor = stamp.event, self._anchor
        assert anchor is not None, "the timeline was not started"
        assert event is not None, "a stamp that waits to be read has its event"
        device_ns = anchor.device_ns + round(anchor.event.elapsed_time(event) * 1e6)
        stamp.device_ns = device_ns
        stamp.event = None
        self.resolved.append(stamp)
        if device_ns - anchor.device_ns > REBASE_NS:
            self.pool.append(anchor.event)
            self._anchor = _Anchor(event, device_ns)
        else:
            self.pool.append(event)

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            self._resolve(time.perf_counter_ns(), WORKER_AGE_NS)

    def close(self) -> None:
        """Stop the worker."""
        self._stop.set()
        if self._worker is not None:
            self._worker.join()
