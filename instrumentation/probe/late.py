"""Rows of steps whose tokens come back after the step has ended."""

from __future__ import annotations

from collections import deque
from types import TracebackType

from .ledger import Ledger, Row
from .ranges import RangeStack

Figures = dict[str, int | float | bool | None]


class HeldRows:
    """Writes `steps` rows in the order of the steps: one that waits for its tokens holds up those behind it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: deque[LateTokens | Row] = deque()

    def write(self, row: Row) -> None:
        """The row of a step that waits for nothing."""
        if self._held:
            self._held.append(row)
        else:
            self._ledger.rows["steps"].append(row)

    def hold(self, late: LateTokens) -> None:
        """A closed step whose tokens are to come."""
        self._held.append(late)

    def release(self) -> None:
        """Write the rows that wait for nothing any more."""
        while self._held and (not isinstance(self._held[0], LateTokens) or self._held[0].done):
            self._write_first()

    def give_up(self) -> None:
        """Write everything: steps whose tokens never came back have no latency."""
        while self._held:
            self._write_first()

    def _write_first(self) -> None:
        held = self._held.popleft()
        self._ledger.rows["steps"].append(held.row() if isinstance(held, LateTokens) else held)


class LateTokens:
    """Context manager around taking in a step's tokens, between two later steps or within one.

    The step's row waits for it, because latency ends where the tokens are visible. What is written between two steps
    belongs to the step that ended last, as a range there does: waits too, while a late step is taken in.
    """

    __slots__ = ("_behind", "_figures", "_held", "_outside", "_stack", "_start_ns", "_times", "done")

    def __init__(self, stack: RangeStack, held: HeldRows, start_ns: int) -> None:
        self._stack = stack
        self._held = held
        self._start_ns = start_ns
        self._figures: Figures = {}
        self.done = False

    def hold(self, times: tuple[int, int, int], figures: Figures, behind: tuple[bool, bool]) -> None:
        """Keep what the closing step says of itself: number, start and end; figures; warmup and complete."""
        self._times, self._figures, self._behind = times, figures, behind
        self._held.hold(self)

    def row(self) -> Row:
        """The step's row."""
        return (*self._times, *self._figures.values(), *self._behind)

    def __enter__(self) -> None:
        ledger = self._stack.ledger
        self._outside = ledger.step is None
        if self._outside:
            ledger.step = self._stack.step

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack = self._stack
        if self._figures and kind is None:
            self._figures["latency_ns"] = stack.now() - self._start_ns
        if self._outside:
            stack.ledger.step = None
        self.done = True
        self._held.release()
