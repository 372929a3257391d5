"""What a report says, before any format: sections of words, tables and charts. Every renderer takes this and no more.

    Recording ──► views (numbers) ──► pages (a Document) ──► html, text, markdown
                                └──────────────────────────► json

Cells stay numbers with a unit until a renderer writes them, so a table sorts by value and one place decides digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Unit = Literal["ns", "us", "ms", "bytes", "fraction", "count", "number", "exact"]
"""What a number is counted in. `us` and `ms` are *columns'* units: the value itself is always in ns."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit: times in ns, sizes in bytes, fractions 0..1, everything else as it is.

    `low` and `high` are exact bounds where the value is known only within them. `exact` prints every digit.
    """

    value: int | float
    unit: Unit
    low: int | float | None = None
    high: int | float | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """A value that was not measured, and why. Never rendered as blank or as 0."""

    reason: str


@dataclass(frozen=True, slots=True)
class Link:
    """A reference to another page of the same folder, or to a section (`#id`)."""

    text: str
    href: str


Cell = str | Quantity | Missing | Link


@dataclass(frozen=True, slots=True)
class Column:
    """A table column. With `unit`, its numbers share that unit, which then stands in the title, not in the cells."""

    title: str
    unit: Unit | None = None
    numeric: bool = False
    help: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Cells in the order of the columns.

    origin   the calibration where the row comes from a model, empty where it was measured, None where neither: of a
             point that failed or was skipped
    """

    cells: tuple[Cell, ...]
    origin: str | None = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A captioned table. `filterable` tables are long: the HTML page gives them a search box."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    filterable: bool = False

    @property
    def origin(self) -> str:
        """The calibration behind the rows (several are joined), empty when nothing in the table is modelled."""
        return ", ".join(sorted({row.origin for row in self.rows if row.origin}))


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values that were not measured: environment, parameters, choices."""

    caption: str
    items: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph. `emphasis` is for sentences that carry a finding."""

    text: str
    emphasis: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The headline's unit: one of the four questions, the answer in words, and the figures that it rests on."""

    question: str
    answer: str
    figures: tuple[tuple[str, Cell], ...] = ()
    href: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A Plotly figure as plain data: traces and the part of the layout that differs from the house's layout."""

    data: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any] = field(default_factory=dict)
    height_px: int = 340


@dataclass(frozen=True, slots=True)
class Chart:
    """A titled chart; with several `choices` (label, figure) the page offers a list to choose from.

    `words` says the same in one sentence, for the formats without pictures too; `hint` is for the page only.
    """

    id: str
    title: str
    choices: tuple[tuple[str, Figure], ...]
    words: str = ""
    origin: str = ""
    hint: str = ""


Block = Words | Answer | Facts | Table | Chart


@dataclass(frozen=True, slots=True)
class Section:
    """A headed part of a page. `brief` sections make up the terminal summary; the other formats print all.

    `nav` is the short name in the page's list of sections, where the title is too long for it.
    """

    id: str
    title: str
    blocks: tuple[Block, ...]
    brief: bool = False
    nav: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """One page. `origin` names the calibration of a modelled page; `notice` says in a sentence what that means."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    origin: str = ""
    notice: str = ""

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts in the order of the page."""
        return tuple(block for section in self.sections for block in section.blocks if isinstance(block, Chart))
