"""Marks of the `cuda` device: where phases begin and end on the compute stream."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from ...instrumentation.clock import Clock
from ...instrumentation.probe.native import native_events
from .base import StreamName
from .cuda_lanes import Stamp, StampLane
from .cuda_rows import DeviceRows

CLOCK_NS = 10_000_000
"""An event on a queue that has run dry tells the clock more than any other, because it fires at once. A mark needs none
there; this often is enough for the clock, which keeps one constraint of three such times."""
STALE_NS = 100_000
"""The queue may have run dry behind a border that is older than this."""


class Marks:
    """Stamps of one lane at the borders of phases. They share the borders of operations, so most record nothing.

    closed    True while a graph is captured: no mark is taken
    aside     streams that got work since the last mark and that the compute stream did not join since
    unjoined  streams that ever stood in the way of a mark
    """

    def __init__(self, lane: StampLane, rows: DeviceRows, clock: Clock) -> None:
        self._lane = lane
        self._rows = rows
        self._now = clock.now_ns
        self._clock_ns = 0  # when an event was asked for for the clock's sake
        self.closed = False
        self.aside: set[StreamName] = set()
        self.unjoined: set[StreamName] = set()

    def take(self) -> Stamp | None:
        """A stamp on the lane: the border where nothing was enqueued since, for an event now would fire at the later of
        its time and now.

        Work that went to another stream since the mark before, and that the compute stream does not wait for, does not
        lie before this mark: then there is none, and `unjoined` names the stream.
        """
        border = self._lane.border
        if border is None or self.closed or self.aside:
            return self._apart()
        return border

    def waited(self, now_ns: int) -> None:
        """The host has waited for the device: if it is time, the next mark gets an event of its own."""
        border = self._lane.border
        if border is not None and now_ns - border.recorded_ns > STALE_NS and now_ns - self._clock_ns > CLOCK_NS:
            self._lane.border, self._clock_ns = None, now_ns

    def _apart(self) -> Stamp | None:
        if self.closed:
            return None
        if self.aside:
            self.unjoined.update(self.aside)
            self.aside.clear()
            return None
        return self._lane.record(self._now())

    def resolve(self, mark: Stamp, asked_ns: int) -> tuple[int, int] | None:
        """(time_ns, err_ns), once the clock corridor of its window is fitted.

        On an idle stream the stamp may have fired long before the mark was asked for; an event of its own would have
        fired then, so the later of the two times counts.
        """
        known = self._rows.host_time(mark)
        return None if known is None else (max(known[0], asked_ns), known[1])


def make_marks(lane: StampLane, rows: DeviceRows, clock: Clock) -> Marks:
    """Marks on a lane; they are taken in C where the lane is in C."""
    module = native_events()
    if module is None or not isinstance(lane, module.Lane):
        return Marks(lane, rows, clock)
    return cast(Marks, _marks_type(module)(lane, rows, clock))


@cache
def _marks_type(module: Any) -> Any:
    return type("NativeMarks", (module.Marks, Marks), {"__doc__": Marks.__doc__})
