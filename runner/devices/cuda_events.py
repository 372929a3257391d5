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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from ...errors import UsageError
from .cuda_lanes import Stamp, StampLane
from .cuda_native import make_lane, make_pool

EVENT: type[torch.cuda.Event] = torch.cuda.Event.__bases__[0]
"""What torch.cuda.Event wraps in Python to fill in defaults; nobody here needs them, and each frame costs."""
BACKLOG = 6144
"""Stamps that may wait to be read before somebody has to read them, wait for the device or not: as many as host-bound
steps of 12 record between two readings of the ledger. It was 3072: four of ten such steps then read in the step.
"""
POOL_SIZE = BACKLOG + 256
"""Events at hand before the first step; the driver's own part of one is made when it is first recorded."""
REBASE_NS = 1_000_000_000
"""elapsed_time is a float32 of milliseconds: its step is 0.06 us at 1 s, 62 us at 600 s. So the anchor moves along."""
POLL_S = 0.05
WORKER_AGE_NS = 500_000_000
"""How long the worker leaves an event to its owner: while it reads it holds the interpreter's lock."""
WATCHDOG_NS = 60_000_000_000


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
        self.new_event: Callable[[], torch.cuda.Event] = partial(event_type, enable_timing=True)
        """Makes one that was never recorded; refers to nothing, for stamps may outlive their timeline."""
        self.pool = make_pool(self.new_event)
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
        lane = make_lane(stream, self, name)
        self._lanes.append(lane)
        return lane

    def start(self, stream: torch.cuda.Stream) -> None:
        """Fill the pool, record the first anchor and wait for it. Once, before the first step.

        Events that C will record are recorded here first: only then torch makes them.
        """
        for _ in range(POOL_SIZE):
            event = self.new_event()
            if not isinstance(self.pool, deque):
                event.record(stream)
            self.pool.append(event)
        event = self.new_event()
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
