"""Where probe and devices write what happened: one append-only list of plain tuples a table.

The hot path pays one tuple and one append a row, or less: a writer may note raw facts and make its rows when somebody
reads. Column order is that of `recording.schema`, after the key `step`; the keys that are constant in a process are
added when the rows become tables. This module imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

Row = tuple[Any, ...]

LEDGER_TABLES = ("steps", "phases", "spans", "copies", "waits", "edges", "dispatch", "buffers", "telemetry")


class Ledger:
    """Rows of one process, each writer's in the order of their making. `step` is the step that new rows belong to (None
    outside).
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self._tables: dict[str, list[Row]] = {name: [] for name in LEDGER_TABLES}
        self._writers: list[Callable[[], object]] = []
        self.new_correlation: Callable[[], int] = count(1).__next__
        """An id that ties a launch to what it launched; unique in the process."""

    def add(self, table: str, *values: object) -> None:
        """Append a row of `table` for the current step; `values` in the schema's column order."""
        self._tables[table].append((self.step, *values))

    def table(self, name: str) -> list[Row]:
        """The list behind a table, for whoever appends often: it stays the same object for good."""
        return self._tables[name]

    def before_reading(self, write: Callable[[], object]) -> None:
        """Have `write` called before anybody reads: it turns what it has noted into rows."""
        self._writers.append(write)

    @property
    def rows(self) -> dict[str, list[Row]]:
        """All rows so far by table, those that were put off included. To read; a hot path appends to `table`."""
        for write in self._writers:
            write()
        return self._tables

    def take(self) -> dict[str, list[Row]]:
        """Hand over all rows so far and start empty; the caller owns what it gets."""
        taken = {name: rows.copy() for name, rows in self.rows.items()}
        for rows in self._tables.values():
            rows.clear()
        return taken
