"""Reasons of missing values, gathered under the table that they belong to so that the cells stay narrow."""

from __future__ import annotations

from dataclasses import dataclass

from .document import Missing, Table


@dataclass(frozen=True, slots=True)
class Footnotes:
    """The distinct reasons of one table in order of appearance; a mark is a reason's number, from 1."""

    reasons: tuple[str, ...]

    @classmethod
    def of(cls, table: Table) -> Footnotes:
        """Collect the reasons row by row."""
        found = (cell.reason for row in table.rows for cell in row.cells if isinstance(cell, Missing))
        return cls(tuple(dict.fromkeys(found)))

    def mark(self, cell: Missing) -> int:
        """The number under which the cell's reason stands."""
        return self.reasons.index(cell.reason) + 1

    def lines(self) -> tuple[tuple[int, str], ...]:
        """(mark, sentence) pairs to print under the table."""
        return tuple((i, f"not measured: {reason or 'no reason recorded'}") for i, reason in enumerate(self.reasons, 1))
