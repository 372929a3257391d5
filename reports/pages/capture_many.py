"""Captures of many devices: a page names a dozen, sums up the rest, and its tables end somewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from ...analysis.captures.devices import DeviceFigures
from ...analysis.captures.gaps import GapFigures
from ..document import Block, Section, Table
from ..formatting import count, percent

FEW = 12
"""Devices that get a sentence, a bar and tables of their own."""
ROWS_OF_A_PAGE, ROWS_OF_A_TERMINAL = 2_000, 50


def idle_words(devices: Sequence[DeviceFigures]) -> str:
    """ "2,000 devices idled 12.3 % of their windows (median; 1.2 % to 40.1 %)." """
    shares = sorted(own.idle_ns / own.window_ns for own in devices if own.idle_ns is not None and own.window_ns)
    if not shares:
        why = next((own.unseen for own in devices if own.unseen), "their windows are empty")
        return f"What {count(len(devices))} devices idled cannot be said, because {why}."
    middle, least, most = (percent(share) for share in (shares[len(shares) // 2], shares[0], shares[-1]))
    return f"{count(len(devices))} devices idled {middle} of their windows (median; {least} to {most})."


def most_idle(gaps: Sequence[GapFigures]) -> Sequence[GapFigures]:
    """The ones that a page tells of: all of few, else those that idled longest."""
    return gaps if len(gaps) <= FEW else sorted(gaps, key=lambda own: -own.idle_ns)[:FEW]


def bounded(sections: Iterable[Section], most: int) -> tuple[Section, ...]:
    """The sections with tables of at most so many rows; a table that was cut says so."""
    return tuple(
        dataclasses.replace(section, blocks=tuple(_cut(block, most) for block in section.blocks))
        for section in sections
    )


def _cut(block: Block, most: int) -> Block:
    if not isinstance(block, Table) or len(block.rows) <= most:
        return block
    more = f"The first {count(most)} of {count(len(block.rows))} rows; the JSON format has all."
    return dataclasses.replace(block, rows=block.rows[:most], note=f"{block.note} {more}".strip())
