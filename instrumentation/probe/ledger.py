"""Where probe and devices write what happened: one append-only list of plain tuples a table.

The hot path pays one tuple and one append a row. Column order is that of `recording.schema`, after the key `step`;
the keys that are constant in a process are added when the rows become tables. This module imports nothing of ours.
"""

from __future__ import annotations

from typing import Any

Row = tuple[Any, ...]

LEDGER_TABLES = ("steps", "phases", "spans", "copies", "waits", "edges", "dispatch", "buffers", "telemetry")


class Ledger:
    """Rows of one process, in the order of their making. `step` is the step that new rows belong to (None outside)."""

    def __init__(self) -> None:
        self.step: int | None = None
        self.rows: dict[str, list[Row]] = {name: [] for name in LEDGER_TABLES}
        self._next_correlation = 0

    def new_correlation(self) -> int:
        """An id that ties a launch to what it launched; unique in the process."""
        self._next_correlation += 1
        return self._next_correlation

    def add(self, table: str, *values: object) -> None:
        """Append a row of `table` for the current step; `values` in the schema's column order."""
        self.rows[table].append((self.step, *values))

    def take(self) -> dict[str, list[Row]]:
        """Hand over all rows so far and start empty; the caller owns what it gets."""
        taken = self.rows
        self.rows = {name: [] for name in LEDGER_TABLES}
        return taken
