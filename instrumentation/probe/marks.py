"""Timing events at phase borders: taken in the step, read later, in order, without waiting."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from .api import DeviceMarks
from .ledger import Ledger

MAX_PENDING = 4096
"""Phases held back at most. Behind an event that never fires the oldest ones are given up: null span, counted."""


@dataclass(slots=True)
class PhaseRecord:
    """One entered phase. `host_ns` stays None when an exception left it; marks are None where none was taken."""

    step: int | None
    name: str
    begin_mark: int | None = None
    end_mark: int | None = None
    host_ns: int | None = None


class PendingPhases:
    """Phases whose marks are not known yet; each becomes one `phases` row, in the order of entering."""

    def __init__(self, ledger: Ledger, marks: DeviceMarks | None) -> None:
        self.given_up = 0
        self._ledger = ledger
        self._marks = marks
        self._waiting: deque[PhaseRecord] = deque()

    def add(self, record: PhaseRecord) -> None:
        """Take a finished or aborted phase."""
        if record.begin_mark is None or record.end_mark is None:
            if not self._waiting:
                self._write(record, None)
                return
        self._waiting.append(record)
        if len(self._waiting) > MAX_PENDING:
            self.given_up += 1
            self._write(self._waiting.popleft(), None)

    def resolve(self) -> None:
        """Write what is known by now. Stops at the first unknown mark, because later ones fire later."""
        while self._waiting:
            record = self._waiting[0]
            if record.begin_mark is None or record.end_mark is None:
                self._write(self._waiting.popleft(), None)
                continue
            window = self._window(record.begin_mark, record.end_mark)
            if window is None:
                return
            self._write(self._waiting.popleft(), window)

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
        if end is None:
            return None
        begin = self._marks.resolve_mark(begin_mark)
        if begin is None:
            return None
        return begin[0], end[0], begin[1] + end[1]

    def _write(self, record: PhaseRecord, window: tuple[int, int, int] | None) -> None:
        # starved_ns and busy_ns need the device's own work; the conversion to tables fills them where it may.
        span_ns = err_ns = span_start_ns = None
        if window is not None:
            span_start_ns, end_ns, err_ns = window
            span_ns = end_ns - span_start_ns
        self._ledger.rows["phases"].append(
            (record.step, record.name, record.host_ns, span_ns, None, None, err_ns, span_start_ns)
        )
