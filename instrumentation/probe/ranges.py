"""Timed host ranges on one stack.

A range object is made once for each name and may be entered again while it is open: what belongs to one use lies on
the stack. Ends that cross (r1 left before the r2 that was opened inside it) keep their true times in the rows and are
noted; NVTX cannot say that, so there only the number of pops is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Protocol

from .ledger import Ledger
from .nvtx_ranges import NvtxRanges

MAX_CROSSINGS = 64


class ProbeClock(Protocol):
    """The part of a clock that the probe uses; the probe imports nothing of ours.

    A clock may have an attribute `plain`, True where `leave` is `now_ns`: then nobody pays for passing the name.
    """

    def now_ns(self) -> int:
        """Time now, in ns."""
        ...

    def leave(self, name: str) -> int:
        """Time at the end of the range `name`; a declared clock first advances by that range's cost."""
        ...


class RangeStack:
    """The open ranges of one thread. `step` is the step that they belong to, or the one that ended last."""

    __slots__ = ("_leave", "crossings", "floor", "lane", "ledger", "now", "nvtx", "open", "step")

    def __init__(self, ledger: Ledger, clock: ProbeClock, lane: str, nvtx: NvtxRanges | None) -> None:
        self.ledger = ledger
        self.lane = lane
        self.nvtx = nvtx
        self.step: int | None = None
        self.floor = 0  # ranges below it were opened before the step and outlive it
        self.now = clock.now_ns
        self._leave = None if getattr(clock, "plain", False) else clock.leave
        self.open: list[tuple[TimedRange, int]] = []
        self.crossings: deque[tuple[str, str]] = deque(maxlen=MAX_CROSSINGS)

    def end_of(self, name: str) -> Callable[[], int]:
        """What reads the time at the end of the range `name`."""
        return self.now if self._leave is None else partial(self._leave, name)

    def close_to_floor(self, end_ns: int) -> None:
        """Close what a step left open, innermost first."""
        while len(self.open) > self.floor:
            left, start_ns = self.open.pop()
            left.write(len(self.open), start_ns, end_ns)
            if self.nvtx is not None:
                self.nvtx.pop()


class TimedRange:
    """A named range on a stack; a context manager. Entering and leaving is the hot path: few frames, bound names."""

    __slots__ = ("_end", "_lane", "_ledger", "_now", "_open", "_stack", "kind", "name")

    def __init__(self, stack: RangeStack, name: str, kind: str = "range") -> None:
        self._stack = stack
        self._ledger = stack.ledger
        self._lane = stack.lane
        self._open = stack.open
        self._now = stack.now
        self._end = stack.end_of(name)
        self.name = name
        self.kind = kind

    def __enter__(self) -> None:
        self._open.append((self, self._now()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_ns = self._end()
        opened = self._open
        if opened and opened[-1][0] is self:
            # The same row as `write` makes, without its frame.
            start_ns = opened.pop()[1]
            self._ledger.rows["spans"].append(
                (self._stack.step, self._lane, self.name, self.kind, len(opened), start_ns, end_ns, 0, None)
            )
        elif opened:
            self.close_at(end_ns)

    def write(self, depth: int, start_ns: int, end_ns: int) -> None:
        """One `spans` row."""
        stack = self._stack
        self._ledger.rows["spans"].append(
            (stack.step, stack.lane, self.name, self.kind, depth, start_ns, end_ns, 0, None)
        )

    def close_at(self, end_ns: int) -> int | None:
        """Close the innermost use of this range at `end_ns`, wherever it lies on the stack.

        Returns its duration in ns, or None when no use is open, because its step ended first and closed it.
        """
        opened = self._open
        for depth in range(len(opened) - 1, -1, -1):
            timed, start_ns = opened[depth]
            if timed is self:
                if depth != len(opened) - 1:
                    self._stack.crossings.append((self.name, opened[-1][0].name))
                del opened[depth]
                self.write(depth, start_ns, end_ns)
                return end_ns - start_ns
        return None


class TracedRange(TimedRange):
    """The same, while a tool listens: also an NVTX range."""

    __slots__ = ("_nvtx",)

    def __init__(self, stack: RangeStack, name: str, kind: str = "range") -> None:
        super().__init__(stack, name, kind)
        assert stack.nvtx is not None
        self._nvtx = stack.nvtx

    def __enter__(self) -> None:
        self._nvtx.push(self.name)
        super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before = len(self._open)
        super().__exit__(kind, error, trace)
        if len(self._open) < before:  # unchanged: the step that it was opened in has closed and popped it
            self._nvtx.pop()
