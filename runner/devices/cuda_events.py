"""Timing events of the `cuda` device: a pool, and a worker that turns fired events into integers on one device axis.

Recording takes a pooled event and a cached stream object; nothing here waits. The worker asks each stream's oldest
unresolved event and stops at the first that has not fired. It holds `lock` while it talks to the driver: who captures a
graph takes the lock, because an event query from another thread would invalidate the capture.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

import torch

POOL_SIZE = 1024
REBASE_NS = 1_000_000_000
"""elapsed_time is a float32 of milliseconds: its step is 0.06 us at 1 s, 62 us at 600 s. So the anchor moves along."""
POLL_S = 0.05
WATCHDOG_NS = 60_000_000_000


@dataclass(slots=True)
class Stamp:
    """One recorded event. `device_ns` is written by the worker once the event has fired."""

    stream: str
    event: torch.cuda.Event | None
    recorded_ns: int
    device_ns: int | None = None
    returned_ns: int | None = None
    """Host time at which a wait for this event returned, if one did."""
    lost: bool = False


@dataclass(slots=True)
class _Anchor:
    event: torch.cuda.Event
    device_ns: int


@dataclass
class EventTimeline:
    """Stamps in recording order, resolved in the background. Device time 0 is the first event of all."""

    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._pool: deque[torch.cuda.Event] = deque(torch.cuda.Event(enable_timing=True) for _ in range(POOL_SIZE))
        self._waiting: dict[str, deque[Stamp]] = {}
        self._anchor: _Anchor | None = None
        self.resolved: deque[Stamp] = deque()
        """Stamps with a device time, for the owner of the clock corridor to consume."""
        self._stop = threading.Event()
        self._worker = threading.Thread(target=self._run, name="stepscope-events", daemon=True)
        self._worker.start()

    def start(self, stream: torch.cuda.Stream, now_ns: int) -> None:
        """Record the first anchor and wait for it. Once, before the first step."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        event.synchronize()
        self._anchor = _Anchor(event, 0)

    def record(self, name: str, stream: torch.cuda.Stream, now_ns: int) -> Stamp:
        """A stamp behind everything on `stream`. A fresh event is made when the pool runs dry: never a reuse."""
        try:
            event = self._pool.popleft()
        except IndexError:
            event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        stamp = Stamp(name, event, now_ns)
        self._waiting.setdefault(name, deque()).append(stamp)
        return stamp

    def resolve(self, now_ns: int) -> None:
        """Take the device time of every event that has fired. Called by the worker, and by the owner when idle."""
        with self.lock:
            for waiting in self._waiting.values():
                self._drain(waiting, now_ns)

    def _drain(self, waiting: deque[Stamp], now_ns: int) -> None:
        while waiting:
            stamp = waiting[0]
            event = stamp.event
            assert event is not None
            if not event.query():
                if now_ns - stamp.recorded_ns > WATCHDOG_NS:
                    stamp.lost = True
                    waiting.popleft()
                    continue
                return
            waiting.popleft()
            self._take(stamp, event)

    def _take(self, stamp: Stamp, event: torch.cuda.Event) -> None:
        anchor = self._anchor
        assert anchor is not None
        stamp.device_ns = anchor.device_ns + round(anchor.event.elapsed_time(event) * 1e6)
        stamp.event = None
        self.resolved.append(stamp)
        if stamp.device_ns - anchor.device_ns > REBASE_NS:
            self._pool.append(anchor.event)
            self._anchor = _Anchor(event, stamp.device_ns)
        else:
            self._pool.append(event)

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            self.resolve(time.perf_counter_ns())

    def close(self) -> None:
        """Stop the worker."""
        self._stop.set()
        self._worker.join()
