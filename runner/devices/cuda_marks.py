"""Marks of the `cuda` device: where phases begin and end on the compute stream."""

from __future__ import annotations

from ...instrumentation.clock import Clock
from .base import StreamName
from .cuda_events import Stamp, StampLane
from .cuda_rows import DeviceRows

CLOCK_NS = 10_000_000
"""An event on a queue that has run dry tells the clock more than any other, because it fires at once. A mark needs none
there; this often is enough for the clock, which keeps one constraint of three such times."""
STALE_NS = 100_000
"""The queue may have run dry behind a border that is older than this."""
MAX_MARKS = 65_536
"""Marks kept until they are read. A phase that an exception left never reads its first one."""


class Marks:
    """Numbered stamps of one lane. They share the borders of operations, so most cost nothing.

    closed    True while a graph is captured: no mark is taken
    aside     streams that got work since the last mark and that the compute stream did not join since
    unjoined  streams that ever stood in the way of a mark
    """

    def __init__(self, lane: StampLane, rows: DeviceRows, clock: Clock) -> None:
        self._lane = lane
        self._rows = rows
        self._now = clock.now_ns
        self._waiting: dict[int, tuple[Stamp, int]] = {}  # until read: the stamp, and when the mark was asked for
        self._taken = 0
        self._clock_ns = 0  # when an event was recorded for the clock's sake
        self.closed = False
        self.aside: set[StreamName] = set()
        self.unjoined: set[StreamName] = set()

    def take(self) -> int | None:
        """A stamp on the lane: the border where nothing was enqueued since, for an event now would fire at the later of
        its time and now.

        Work that went to another stream since the mark before, and that the compute stream does not wait for, does not
        lie before this mark: then there is none, and `unjoined` names the stream.
        """
        if self.closed:
            return None
        if self.aside:
            self.unjoined.update(self.aside)
            self.aside.clear()
            return None
        number = self._taken
        self._taken = number + 1
        now_ns, waiting = self._now(), self._waiting
        border = self._lane.border
        if border is None:
            border = self._lane.record(now_ns)
        elif now_ns - border.recorded_ns > STALE_NS and now_ns - self._clock_ns > CLOCK_NS:
            border, self._clock_ns = self._lane.record(now_ns), now_ns
        waiting[number] = (border, now_ns)
        if len(waiting) > MAX_MARKS:
            del waiting[next(iter(waiting))]
        return number

    def resolve(self, mark: int) -> tuple[int, int] | None:
        """(time_ns, err_ns), once the clock corridor of its window is fitted. A mark can be read once.

        On an idle stream the stamp may have fired long before the mark was asked for; an event of its own would have
        fired then, so the later of the two times counts.
        """
        found = self._waiting.get(mark)
        if found is None or not self._rows.is_final(found[0]):
            return None
        known = self._rows.host_time(found[0])
        if known is None:
            return None
        del self._waiting[mark]
        return max(known[0], found[1]), known[1]
