"""Lanes of the `cuda` device: what has been recorded on a stream, in Python.

A step does this four to ten times. It can be done in C (`cuda_native.py`), in the same way and with the same
attributes; tests hold both against each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    import torch


class Pool(Protocol):
    """Events that nobody waits for; a deque is one."""

    def append(self, event: Any, /) -> None:
        """Give an event back that was read."""
        ...

    def pop(self) -> Any:
        """Take the one that was used last: its memory is near. Raises IndexError when the pool is dry."""
        ...


class Timeline(Protocol):
    """What lanes need of the timeline that they are on."""

    pool: Pool
    new_event: Callable[[], Any]
    """For when the pool runs dry."""


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

    def __init__(self, event: torch.cuda.Event, pool: Pool) -> None:
        self.event = event
        self.number = 0
        self.returned_ns: int | None = None
        self._pool = pool

    def __del__(self) -> None:
        self._pool.append(self.event)


class StampLane:
    """Stamps of one stream, in recording order.

    name      of the lane in a recording
    border    the stamp behind the last operation, None if nothing was recorded behind it
    last      the latest stamp, operations behind it or not
    waiting   stamps that nobody has read yet
    done      number of a stamp that is known to have fired, with all before it: somebody waited for it
    engine    the copy engine ("h2d", "d2h") that ran the last operation, "" when another one did
    kernels   number of the stamp behind the last operation that was no copy, or behind the last wait for another stream
    recorded  number of the latest stamp
    """

    if not TYPE_CHECKING:
        __slots__ = ()  # each form keeps the attributes in its own way
    name: str
    timeline: Timeline
    border: Stamp | None
    last: Stamp | None
    waiting: deque[Stamp]
    done: int
    engine: str
    kernels: int
    recorded: int
    _stream: torch.cuda.Stream
    _pooled: Callable[[], Any]
    _wait: Callable[[Stamp], None]

    @property
    def has_kernels(self) -> bool:
        """Whether what comes next may have to wait for more than copies, as far as the host knows."""
        return self.kernels > self.done

    @property
    def is_idle(self) -> bool:
        """Whether all that was stamped is known to have fired, and what comes next waits for nobody else."""
        return self.done >= self.recorded and self.done >= self.kernels

    def wait_for_others(self) -> None:
        """What comes next waits for another stream, until the next stamp has fired."""
        self.kernels = self.recorded + 1

    def begin(self) -> Stamp | None:
        """The stamp that what comes next begins behind, if there is one already: the border, or on an idle lane the
        last. Behind copies without events alone it begins when it gets there: no event can tell more.
        """
        return self.last if self.border is None and self.is_idle else self.border

    def record(self, now_ns: int) -> Stamp:
        """A stamp behind everything on the stream. A fresh event is made when the pool runs dry: never a reuse."""
        self.recorded = number = self.recorded + 1
        try:
            event = self._pooled()
        except IndexError:
            event = self.timeline.new_event()
        event.record(self._stream)
        self.border = self.last = stamp = Stamp(event, now_ns, number, self.engine)
        self._wait(stamp)
        return stamp

    def record_work(self, now_ns: int) -> Stamp:
        """A stamp behind an operation that is no copy."""
        self.engine = ""
        stamp = self.record(now_ns)
        self.kernels = stamp.number
        return stamp

    def record_untimed(self) -> UntimedStamp:
        """The same for a device that takes no times: something to wait for, and nothing to read."""
        try:
            event = self._pooled()
        except IndexError:
            event = self.timeline.new_event()
        event.record(self._stream)
        return UntimedStamp(event, self.timeline.pool)


class PythonLane(StampLane):
    """A lane with its attributes; see StampLane."""

    __slots__ = (
        "_pooled", "_stream", "_wait", "border", "done", "engine", "kernels", "last", "name", "recorded", "timeline",
        "waiting",
    )  # fmt: skip

    def __init__(self, stream: torch.cuda.Stream, timeline: Timeline, name: str) -> None:
        self._stream, self.timeline, self.name = stream, timeline, name
        self.border = self.last = None
        self.waiting = deque()
        self._pooled, self._wait = timeline.pool.pop, self.waiting.append
        self.done = self.kernels = self.recorded = 0
        self.engine = ""
