"""Phases of a step: timed ranges with a device mark at either border. Marks are taken in the step and read later."""

from __future__ import annotations

from collections import deque
from types import TracebackType

from .api import DeviceMarks
from .ledger import Ledger
from .ranges import RangeStack, TimedRange

MAX_PENDING = 65_536
"""Phases held back at most: a device clock needs seconds before it can be read. Behind an event that never fires the
oldest ones are given up: null span, counted."""
AT_ONCE = 8
"""Phases looked at when a step begins, where the device has no better time: more than come in by then."""

Entered = tuple[int | None, str, int | None, int | None, int | None]
"""(step, name, host_ns, begin_mark, end_mark). A plain tuple: one is made for each phase, inside the step."""


class PendingPhases:
    """Phases whose marks are not known yet; each becomes one `phases` row, in the order of leaving."""

    def __init__(self, ledger: Ledger, marks: DeviceMarks | None) -> None:
        self.given_up = 0
        self._ledger = ledger
        self._marks = marks
        self._waiting: deque[Entered] = deque()

    def add(self, entered: Entered) -> None:
        """Take a phase that was left. Without marks there is nothing to wait for."""
        if self._marks is None:
            self._ledger.rows["phases"].append((*entered[:3], None, None, None, None, None))
            return
        self._waiting.append(entered)
        if len(self._waiting) > MAX_PENDING:
            self.given_up += 1
            self._write(self._waiting.popleft(), None)

    def resolve(self, limit: int = MAX_PENDING) -> int:
        """Write at most `limit` phases of those that are known by now, and return how many.

        Stops at the first unknown mark, because later ones fire later.
        """
        waiting = self._waiting
        left = limit
        while waiting and left:
            _, _, _, begin_mark, end_mark = waiting[0]
            window = None
            if begin_mark is not None and end_mark is not None:
                window = self._window(begin_mark, end_mark)
                if window is None:
                    break
            self._write(waiting.popleft(), window)
            left -= 1
        return limit - left

    def give_up(self) -> None:
        """Write everything that still waits: known spans where they are known, null where not."""
        self.resolve()
        while self._waiting:
            self.given_up += 1
            self._write(self._waiting.popleft(), None)
            self.resolve()

    def _window(self, begin_mark: int, end_mark: int) -> tuple[int, int, int] | None:
        """(begin_ns, end_ns, err_ns). The errors add up: the bound holds whichever way each mark is off."""
        assert self._marks is not None
        end = self._marks.resolve_mark(end_mark)
        begin = None if end is None else self._marks.resolve_mark(begin_mark)
        if begin is None or end is None:
            return None
        return begin[0], end[0], begin[1] + end[1]

    def _write(self, entered: Entered, window: tuple[int, int, int] | None) -> None:
        # starved_ns and busy_ns need the device's own work; the conversion to tables fills them where it may.
        step, name, host_ns, _, _ = entered
        span_ns = err_ns = begin_ns = None
        if window is not None:
            begin_ns, end_ns, err_ns = window
            span_ns = end_ns - begin_ns
        self._ledger.rows["phases"].append((step, name, host_ns, span_ns, None, None, err_ns, begin_ns))


class TimedPhase:
    """A named phase: a range with marks. Phases do not nest, so the begin mark of the one use lies in the object.

    Between the reading of one phase's end and the next one's start the host does nothing that can be done elsewhere:
    what passes there belongs to no phase, and phases have to close to the period.
    """

    __slots__ = ("_begin_mark", "_end", "_marks", "_pending", "_range", "_stack")

    def __init__(self, stack: RangeStack, name: str, marks: DeviceMarks | None, pending: PendingPhases) -> None:
        self._stack = stack
        self._range = TimedRange(stack, name, "phase")
        self._end = stack.end_of(name)
        self._marks = marks
        self._pending = pending
        self._begin_mark: int | None = None

    def __enter__(self) -> None:
        stack = self._stack
        if stack.nvtx is not None:
            stack.nvtx.push(self._range.name)
        stack.open.append((self._range, stack.now()))
        if self._marks is not None:
            self._begin_mark = self._marks.mark()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the phase and hand it to the pending ones.

        The end mark comes after the range's end, because a declared clock advances there and the event has to lie
        behind the phase's own host time; the host end is read after the mark, so that the mark's cost counts as the
        phase's. A phase that an exception leaves gets no end mark and no figures, yet keeps its row: it counts as
        incomplete.
        """
        stack, timed = self._stack, self._range
        end_ns = self._end()
        end_mark = None
        if self._marks is not None and kind is None:
            end_mark = self._marks.mark()
            end_ns = stack.now()
        opened, host_ns = stack.open, None
        if opened and opened[-1][0] is timed:
            start_ns = opened.pop()[1]
            timed.write(len(opened), start_ns, end_ns)
            host_ns = end_ns - start_ns
        else:
            host_ns = timed.close_at(end_ns)
            if host_ns is None:
                return  # its step ended first and closed it
        if stack.nvtx is not None:
            stack.nvtx.pop()
        if kind is not None:
            host_ns = None
        self._pending.add((stack.step, timed.name, host_ns, self._begin_mark, end_mark))
