"""The page that lists a folder's recordings."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Block, Cell, Column, Document, Link, Missing, Row, Section, Table, Words
from ..metrics import cell_of, column_of
from ..views.index import IndexEntry

MAX_METRICS = 12
"""Figures of the table at most; the recordings' own pages have all of them."""


def index_document(entries: Sequence[IndexEntry], name: str) -> Document:
    """One table with a row a recording; what could not be read stands apart, with the reason."""
    readable = [entry for entry in entries if not entry.error]
    broken = [entry for entry in entries if entry.error]
    blocks: list[Block] = [_table(readable)] if readable else [Words("No recording here can be read.")]
    sections = [Section("recordings", "Recordings", tuple(blocks), brief=True)]
    if broken:
        rows = tuple(Row((entry.name, entry.error)) for entry in broken)
        table = Table("Not readable", (Column("name"), Column("why")), rows)
        sections.append(Section("broken", "Not readable", (table,), brief=True))
    origin = ", ".join(sorted({entry.origin for entry in entries if entry.origin}))
    notice = "Modelled rows say so; compare them with nothing but their own kind." if origin else ""
    return Document(name, f"{len(readable)} recordings, {len(broken)} not readable", tuple(sections), origin, notice)


def _table(entries: Sequence[IndexEntry]) -> Table:
    metrics = list(dict.fromkeys(metric for entry in entries for metric in entry.metrics))[:MAX_METRICS]
    rows = tuple(
        Row((
            Link(entry.name, entry.href) if entry.href else entry.name, _or_missing(entry.source),
            _or_missing(entry.created), *(cell_of(metric, entry.metrics, entry.reasons) for metric in metrics),
        ), entry.origin)
        for entry in entries
    )
    columns = (Column("recording"), Column("made by"), Column("made at"), *(column_of(metric) for metric in metrics))
    return Table("Recordings of this folder", columns, rows, filterable=len(rows) > 12)


def _or_missing(text: str) -> Cell:
    return text or Missing("the recording does not say")
