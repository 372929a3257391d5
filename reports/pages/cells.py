"""From values of views to cells: a number with its unit, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from ...analysis.tables import plain
from ..document import Cell, Column, Missing, Quantity, Row, Table, Unit

NO_REASON = "the recording does not say why"


def number(value: Any, unit: Unit, reason: str | None = None) -> Cell:
    """`value` in `unit`, or the missing cell with `reason` where it is null (None, NA or NaN)."""
    found = plain(value)
    return Missing(reason or NO_REASON) if found is None else Quantity(found, unit)


def word(value: Any, reason: str | None = None) -> Cell:
    """A text, or the missing cell."""
    found = plain(value)
    return Missing(reason or NO_REASON) if found is None else str(found)


def records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of a table as dicts of plain values, without a detour through floats."""
    columns = {str(name): [plain(value) for value in frame[name].array] for name in frame.columns}
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def us_column(title: str, help_: str = "") -> Column:
    """A column of times, shown in µs."""
    return Column(title, unit="us", numeric=True, help=help_)


def count_column(title: str, help_: str = "") -> Column:
    """A column of counts."""
    return Column(title, unit="count", numeric=True, help=help_)


def percent_column(title: str) -> Column:
    """A column of fractions, shown in per cent."""
    return Column(title, unit="fraction", numeric=True)


def bytes_column(title: str) -> Column:
    """A column of sizes; each cell carries its own unit."""
    return Column(title, unit="bytes", numeric=True)


def table(
    caption: str, columns: Iterable[Column], rows: Iterable[tuple[Cell, ...]], origin: str = "", note: str = "",
) -> Table:
    """A table all of whose rows have one origin."""
    return Table(caption, tuple(columns), tuple(Row(cells, origin) for cells in rows), note)
