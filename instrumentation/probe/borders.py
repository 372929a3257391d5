"""What the hot path notes, and how it becomes rows.

A scope's two ends are noted in one flat list, in the order of their happening; rows are made from it later, while the
host waits for the device or when somebody reads. The list holds, mostly without an object of its own for an entry:

    border, time     a scope was entered
    time, border     a scope was left
    PhaseEnd         a phase was left
    Step             a step began; the same object again: it ended

Ends that cross (r1 left before the r2 that was opened inside it) keep their true times in the rows and are counted as
crossings. What a step left open ends with the step.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, Protocol

from .ledger import Ledger
from .phases import PendingPhases

MAX_CROSSINGS = 64
ALL = 1 << 62


class Border(NamedTuple):
    """A scope's name and kind (`range` or `phase`). Told apart by identity: one is made for each scope object."""

    name: str
    kind: str


PhaseEnd = tuple[Border, int, int | None, int | None, bool]
"""(border, time_ns, begin_mark, end_mark, whole). `whole` False: an exception left it."""


class StepRecord(Protocol):
    """What the step's object has to say when it has ended. `held`: its row is not complete yet."""

    number: int
    end_ns: int
    held: bool

    def row(self) -> tuple[Any, ...]:
        """The row of the table `steps`."""
        ...


class BorderLog:
    """The list, and the rows made from it: `spans`, `steps`, and through `pending` `phases`.

    noted  the list; whoever notes binds its `append`, so it stays the same object
    """

    def __init__(self, ledger: Ledger, lane: str, pending: PendingPhases) -> None:
        self.noted: list[Any] = []
        self.crossings: deque[tuple[str, str]] = deque(maxlen=MAX_CROSSINGS)
        self._lane = lane
        self._spans = ledger.table("spans")
        self._steps = ledger.table("steps")
        self._pending = pending
        self._at = 0
        self._open: list[tuple[Border, int]] = []
        self._step: StepRecord | None = None
        self._number: int | None = None  # of the open step, or of the one that ended last
        self._floor = 0  # scopes below it were opened before the step and outlive it
        self._ended: deque[StepRecord] = deque()

    def settle(self, limit: int = ALL) -> int:
        """Make rows of at most `limit` entries. Returns how many there were."""
        noted, left = self.noted, limit
        at, end = self._at, len(self.noted)
        while at < end and left:
            left -= 1
            entry = noted[at]
            if type(entry) is int:
                at = self._left(entry, at, end)
            elif type(entry) is Border:
                at = self._entered(entry, at, end)
            else:
                at += 1
                if type(entry) is tuple:
                    self._phase_left(*entry)
                else:
                    self._step_border(entry)
        if at == end:
            noted.clear()
            at = 0
        self._at = at
        self._write_steps()
        return limit - left

    def release(self) -> None:
        """Write every step, whatever was still to be noted."""
        self.settle()
        while self._ended:
            self._steps.append(self._ended.popleft().row())

    # A pair is torn only where an interrupt came between its two halves: the first half is skipped, the next step's
    # entry sets everything right.

    def _entered(self, border: Border, at: int, end: int) -> int:
        time_ns = self.noted[at + 1] if at + 1 < end else None
        if type(time_ns) is not int:
            return at + 1
        self._open.append((border, time_ns))
        return at + 2

    def _left(self, time_ns: int, at: int, end: int) -> int:
        border = self.noted[at + 1] if at + 1 < end else None
        if type(border) is not Border:
            return at + 1
        self._close(border, time_ns)
        return at + 2

    def _phase_left(self, border: Border, end_ns: int, begin: int | None, end: int | None, whole: bool) -> None:
        host_ns = self._close(border, end_ns)
        if host_ns is not None:  # else its step ended first and closed it
            self._pending.add(self._number, border.name, host_ns if whole else None, begin, end)

    def _step_border(self, step: StepRecord) -> None:
        if step is not self._step:
            self._step, self._number, self._floor = step, step.number, len(self._open)
            return
        while len(self._open) > self._floor:
            border, start_ns = self._open.pop()
            self._write(len(self._open), border, start_ns, step.end_ns)
        self._step, self._floor = None, 0
        self._ended.append(step)

    def _write_steps(self) -> None:
        while self._ended and not self._ended[0].held:
            self._steps.append(self._ended.popleft().row())

    def _close(self, border: Border, end_ns: int) -> int | None:
        """Close the innermost use of `border`. Its duration, or None when none is open: its step ended first."""
        opened = self._open
        for depth in range(len(opened) - 1, -1, -1):
            if opened[depth][0] is border:
                if depth != len(opened) - 1:
                    self.crossings.append((border.name, opened[-1][0].name))
                start_ns = opened.pop(depth)[1]
                self._write(depth, border, start_ns, end_ns)
                return end_ns - start_ns
        return None

    def _write(self, depth: int, border: Border, start_ns: int, end_ns: int) -> None:
        self._spans.append((self._number, self._lane, border.name, border.kind, depth, start_ns, end_ns, 0, None))
