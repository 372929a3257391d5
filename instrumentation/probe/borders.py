"""What the hot path notes, and how it becomes rows.

A scope keeps its start in itself and notes one tuple when it is left; rows are made from the list later, when somebody
reads it. What is noted, in the order of happening:

    (scope, start_ns, end_ns)                                a range was left, or a phase without marks
    (scope, start_ns, end_ns, begin_mark, end_mark, whole)   a phase with marks; either of them by an exception: whole
                                                             is False
    Step                                                     a step began; the same object again: it ended

Ends that cross (r1 left before the r2 that was opened inside it) keep their true times in the rows and are counted as
crossings. What a step left open ends with the step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from .ledger import Ledger
from .notes import Notes
from .phases import PendingPhases

MAX_CROSSINGS = 64


class Scope(Protocol):
    """A range or a phase. `start_ns` is None while it is not open."""

    name: str
    kind: str
    start_ns: int | None


class StepRecord(Protocol):
    """What the step's object has to say when it has ended. `held`: its row is not complete yet."""

    number: int
    start_ns: int
    end_ns: int
    held: bool
    is_open: bool

    def row(self) -> tuple[Any, ...]:
        """The row of the table `steps`."""
        ...


Use = tuple[int | None, tuple[Any, ...]]
"""(step, the note). Plain: one is made for each row."""
_WHOLE = None, None, True
_CUT_OFF = None, None, None
"""What follows the times in the note of a scope that ended with its step, or began in none: it has no row of `phases`.
"""


class BorderLog:
    """The rows made from the list of notes: `spans`, `steps`, and through `pending` `phases`.

    noted   the list
    scopes  gives all scopes there are: what is open and what a step left open is asked of them
    """

    def __init__(
        self, ledger: Ledger, noted: Notes, lane: str, pending: PendingPhases, scopes: Callable[[], Iterable[Scope]]
    ) -> None:
        self._noted = noted
        self._left: list[Any] = []  # notes of the open step, that were taken before it has ended
        self.crossings: deque[tuple[str, str]] = deque(maxlen=MAX_CROSSINGS)
        self.overlaps: deque[tuple[int, int]] = deque()
        """(from_ns, until_ns): a step that had been ended went on nevertheless; what ran then cannot be told apart. Of
        those that steps without a row may lie in: in an engine whose steps always overlap there is one a step."""
        self._lane = lane
        self._spans = ledger.table("spans")
        self._steps = ledger.table("steps")
        self._pending = pending
        self._scopes = scopes
        self._open: StepRecord | None = None
        self._number: int | None = None  # of the open step, or of the one that ended last
        self._ended: deque[StepRecord] = deque()

    def settle(self) -> None:
        """Make rows of everything that was noted up to the open step; of a step that is held only its scopes."""
        entries = self._whole()
        if entries:
            self._write(self._uses(entries, [scope for scope in self._scopes() if scope.start_ns is not None]))
        while self._ended and not self._ended[0].held:
            self._end(self._ended.popleft())

    def release(self) -> None:
        """Write every step, whatever was still to be noted."""
        self.settle()
        while self._ended:
            self._end(self._ended.popleft())

    def _end(self, step: StepRecord) -> None:
        row = step.row()
        while self.overlaps and self.overlaps[0][1] <= step.start_ns:  # over when this step began, and all behind it
            self.overlaps.popleft()
        mixed = any(step.start_ns < until_ns and from_ns < step.end_ns for from_ns, until_ns in self.overlaps)
        self._steps.append((*row[:-1], False) if mixed else row)

    def _whole(self) -> list[Any]:
        """What was noted, and is not noted any more; without the step that is open, if one is. How deep its scopes lie
        is known when those around them were left.
        """
        noted = self._left + self._noted.take()
        last = next((at for at in range(len(noted) - 1, -1, -1) if _is_step(noted[at])), None)
        end = len(noted) if last is None or not noted[last].is_open else last
        self._left = noted[end:]
        return noted[:end]

    def _uses(self, entries: Sequence[Any], opened: Iterable[Scope]) -> list[Use]:
        """In the order of their ends, each with its step. `opened`: what nobody has left yet."""
        uses: list[Use] = []
        ended: list[StepRecord] = []
        last_end_ns, number = 0, self._number
        for entry in entries:
            if _is_step(entry):
                self._step_border(entry, ended, opened, uses)
                number = self._number
                if ended:
                    last_end_ns = ended[-1].end_ns
            elif entry[1] is None:
                continue  # its step ended first and closed it
            elif entry[1] >= last_end_ns:
                alone = self._open is None and entry[0].kind == "phase"  # a forward between two steps is neither's
                uses.append((number, (*entry[:3], *_CUT_OFF) if alone else entry))
            else:
                uses.append(_clipped(entry, ended, number))
        return uses

    def _step_border(
        self, step: StepRecord, ended: list[StepRecord], opened: Iterable[Scope], uses: list[Use]
    ) -> None:
        if step is not self._open:
            self._open, self._number = step, step.number
            return
        self._open = None
        for scope in opened:
            if scope.start_ns is not None and step.start_ns <= scope.start_ns < step.end_ns:
                uses.append((step.number, (scope, scope.start_ns, step.end_ns, *_CUT_OFF)))
                scope.start_ns = None
        ended.append(step)
        self._ended.append(step)

    def _write(self, uses: list[Use]) -> None:
        append, lane = self._spans.append, self._lane
        for (step, note), depth in zip(uses, self._depths(uses), strict=True):
            scope, start_ns, end_ns = note[:3]
            kind = scope.kind
            append((step, lane, scope.name, kind, depth, start_ns, end_ns, 0, None))
            begin, end, whole = note[3:] or _WHOLE
            if kind == "phase" and whole is not None:
                host_ns = end_ns - start_ns if whole else None
                self._pending.add(step, scope.name, host_ns, (begin, start_ns), (end, end_ns))

    def _depths(self, uses: list[Use]) -> list[int]:
        """How many scopes were open around each: those that began before it and were left after it, or not yet.

        The order of the ends is that of the list, which two equal times do not change.
        """
        outside = [scope.start_ns for scope in self._scopes() if scope.start_ns is not None]
        starts = [note[1] for _, note in uses]
        depths = [0] * len(uses)
        around: list[int] = []
        for at in sorted(range(len(uses) - 1, -1, -1), key=starts.__getitem__):
            while around and around[-1] < at:
                left = uses[around.pop()][1]
                if left[2] > starts[at]:
                    self.crossings.append((left[0].name, uses[at][1][0].name))
            depths[at] = len(around)
            if outside:
                depths[at] += sum(opened <= starts[at] for opened in outside)
            around.append(at)
        return depths


def _is_step(entry: Any) -> bool:
    return type(entry) is not tuple


def _clipped(entry: tuple[Any, ...], ended: Sequence[StepRecord], number: int | None) -> Use:
    """A use that began before the last of the steps ended: it ends with its own step, if it began in one."""
    scope, start_ns = entry[:2]
    for step in reversed(ended):
        if step.start_ns <= start_ns:
            if start_ns < step.end_ns:
                return step.number, (scope, start_ns, step.end_ns, *_CUT_OFF)
            break
    return number, entry
