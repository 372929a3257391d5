"""Phases that were left and whose device marks are not known yet."""

from __future__ import annotations

from collections import deque
from typing import Any

from .api import DeviceMarks
from .ledger import Ledger

MAX_PENDING = 65_536
"""Phases held back at most: a device clock needs seconds before it can be read. Behind an event that never fires the
oldest ones are given up: null span, counted."""

Entered = tuple[int | None, str, int | None, tuple[Any, int], tuple[Any, int]]
"""(step, name, host_ns, begin, end): a mark and the host time beside it."""


class PendingPhases:
    """Phases whose marks are not known yet; each becomes one `phases` row, in the order of leaving."""

    def __init__(self, ledger: Ledger, marks: DeviceMarks | None) -> None:
        self.given_up = 0
        self._rows = ledger.table("phases")
        self._marks = marks
        self._waiting: deque[Entered] = deque()

    def add(
        self, step: int | None, name: str, host_ns: int | None, begin: tuple[Any, int], end: tuple[Any, int]
    ) -> None:
        """Take a phase that was left, with its marks. Without marks there is nothing to wait for."""
        if self._marks is None:
            self._rows.append((step, name, host_ns, None, None, None, None, None))
            return
        self._waiting.append((step, name, host_ns, begin, end))
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
            _, _, _, begin, end = waiting[0]
            window = None
            if begin[0] is not None and end[0] is not None:
                window = self._window(begin, end)
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

    def _window(self, begin_mark: tuple[Any, int], end_mark: tuple[Any, int]) -> tuple[int, int, int] | None:
        """(begin_ns, end_ns, err_ns). The errors add up: the bound holds whichever way each mark is off."""
        assert self._marks is not None
        end = self._marks.resolve_mark(*end_mark)
        begin = None if end is None else self._marks.resolve_mark(*begin_mark)
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
        self._rows.append((step, name, host_ns, span_ns, None, None, err_ns, begin_ns))
