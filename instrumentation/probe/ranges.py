"""Timed host ranges on one stack.

A range object is made once for each name and may be entered again while it is open: what belongs to one use lies on
the stack. Ends that cross (r1 left before the r2 that was opened inside it) keep their true times in the rows and are
noted; NVTX cannot say that, so there only the number of pops is right.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Protocol

from .api import DeviceMarks
from .ledger import Ledger
from .nvtx_ranges import NvtxRanges

MAX_CROSSINGS = 64


class RangeClock(Protocol):
    """What a range asks of a clock."""

    def now_ns(self) -> int:
        """Time now, in ns."""
        ...

    def leave(self, name: str) -> int:
        """Time at the end of the range `name`."""
        ...


class RangeStack:
    """The open ranges of one thread. `step` is the step that they belong to, or the one that ended last."""

    def __init__(self, ledger: Ledger, clock: RangeClock, lane: str, nvtx: NvtxRanges | None) -> None:
        self.ledger = ledger
        self.lane = lane
        self.nvtx = nvtx
        self.step: int | None = None
        self.now = clock.now_ns
        self.leave = clock.leave
        self.open: list[tuple[TimedRange, int]] = []
        self.crossings: deque[tuple[str, str]] = deque(maxlen=MAX_CROSSINGS)
        self._floor = 0

    def enter_step(self) -> None:
        """Ranges opened from now on belong to the step, and end with it at the latest."""
        self._floor = len(self.open)
        if self.nvtx is not None:
            self.nvtx.push("step")

    def leave_step(self) -> int:
        """Close what the step left open, innermost first, and return the time."""
        end_ns = self.now()
        while len(self.open) > self._floor:
            left, start_ns = self.open.pop()
            self.write(left, len(self.open), start_ns, end_ns)
            if self.nvtx is not None:
                self.nvtx.pop()
        if self.nvtx is not None:
            self.nvtx.pop()
        self._floor = 0
        return end_ns

    def write(self, timed: TimedRange, depth: int, start_ns: int, end_ns: int) -> None:
        """One `spans` row."""
        self.ledger.rows["spans"].append(
            (self.step, self.lane, timed.name, timed.kind, depth, start_ns, end_ns, 0, None)
        )


class TimedRange:
    """A named range on a stack; a context manager."""

    __slots__ = ("kind", "last_mark", "name", "stack")

    def __init__(self, stack: RangeStack, name: str, kind: str) -> None:
        self.stack = stack
        self.name = name
        self.kind = kind
        self.last_mark: int | None = None

    def __enter__(self) -> None:
        stack = self.stack
        if stack.nvtx is not None:
            stack.nvtx.push(self.name)
        stack.open.append((self, stack.now()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack = self.stack
        end_ns = stack.leave(self.name)
        opened = stack.open
        if opened and opened[-1][0] is self:
            start_ns = opened.pop()[1]
            stack.ledger.rows["spans"].append(
                (stack.step, stack.lane, self.name, self.kind, len(opened), start_ns, end_ns, 0, None)
            )
            if stack.nvtx is not None:
                stack.nvtx.pop()
        else:
            self._leave_crossed(end_ns)

    def close(self, marks: DeviceMarks | None) -> int | None:
        """Leave a phase: the end mark is taken at its end, and its cost still counts as the phase's.

        Returns the host duration in ns, None when the range was no longer open. The mark comes after `leave`, because
        a declared clock advances there and the event has to lie behind the phase's own host time.
        """
        stack = self.stack
        end_ns = stack.leave(self.name)
        self.last_mark = None
        if marks is not None:
            self.last_mark = marks.mark()
            end_ns = stack.now()
        if not (stack.open and stack.open[-1][0] is self):
            return self._leave_crossed(end_ns)
        start_ns = stack.open.pop()[1]
        stack.write(self, len(stack.open), start_ns, end_ns)
        if stack.nvtx is not None:
            stack.nvtx.pop()
        return end_ns - start_ns

    def _leave_crossed(self, end_ns: int) -> int | None:
        """Not the innermost range: take it out of the middle. Gone already when its step closed it."""
        stack = self.stack
        for depth in range(len(stack.open) - 1, -1, -1):
            timed, start_ns = stack.open[depth]
            if timed is self:
                stack.crossings.append((self.name, stack.open[-1][0].name))
                del stack.open[depth]
                stack.write(self, depth, start_ns, end_ns)
                if stack.nvtx is not None:
                    stack.nvtx.pop()
                return end_ns - start_ns
        return None
