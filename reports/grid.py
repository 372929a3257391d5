"""A table as plain strings: what text, Markdown and HTML share before each puts its own lines around it."""

from __future__ import annotations

from dataclasses import dataclass

from .document import Column, Missing, Row, Table
from .footnotes import Footnotes
from .formatting import UNIT_TITLES, cell

ORIGIN_TITLE = "origin"


@dataclass(frozen=True, slots=True)
class Grid:
    """Titles, cells and footnotes as text; `numeric` says which columns align right."""

    titles: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    footnotes: tuple[tuple[int, str], ...]


def title_of(column: Column) -> str:
    """A column's title with its unit: "exposed [µs]"."""
    unit = UNIT_TITLES[column.unit] if column.unit else ""
    return f"{column.title} [{unit}]" if unit else column.title


def origin_text(origin: str) -> str:
    """The mark of a modelled thing: "modelled: h200-llama-1b"; empty for what was measured."""
    return f"modelled: {origin}" if origin else ""


def marked(title: str, origin: str) -> str:
    """A caption or title with the mark behind it where the thing is modelled."""
    return f"{title} [{origin_text(origin)}]" if origin else title


def grid(table: Table) -> Grid:
    """Write a table's cells. A column `origin` is added when any row is modelled."""
    notes = Footnotes.of(table)
    titles = [title_of(column) for column in table.columns]
    numeric = [column.numeric for column in table.columns]
    rows = [_cells(row, table.columns, notes) for row in table.rows]
    if table.origin:
        titles.append(ORIGIN_TITLE)
        numeric.append(False)
        rows = [(*cells, _made(row)) for cells, row in zip(rows, table.rows, strict=True)]
    return Grid(tuple(titles), tuple(numeric), tuple(rows), notes.lines())


def _made(row: Row) -> str:
    return "-" if row.origin is None else "modelled" if row.origin else "measured"


def _cells(row: Row, columns: tuple[Column, ...], notes: Footnotes) -> tuple[str, ...]:
    return tuple(
        f"not measured [{notes.mark(item)}]" if isinstance(item, Missing) else cell(item, column.unit)
        for item, column in zip(row.cells, columns, strict=True)
    )
