"""Sections: the copies of a capture, and those that blocked the host although they were asked for asynchronously."""

from __future__ import annotations

from ...analysis.captures.figures import CaptureFigures
from ...analysis.captures.pageable import PageableFigures
from ..document import Block, Cell, Column, Quantity, Section, Words
from ..formatting import counted, duration
from .capture_basis import COPY_CALLS, KINDS, NOT_ALL, basis
from .capture_devices import device_name
from .cells import bytes_column, count_column, number, table, us_column

ASYNCHRONOUS = ("asynchronous copy", "asynchronous copies")
NO_SIZE = "a copy does not tell its size"
NO_RANGES = "no range in which the host builds indices was recorded"


def copies_section(figures: CaptureFigures) -> Section:
    """By direction and kinds of memory, and what the copies to the device were hidden under."""
    if not figures.copies:
        unsaid = figures.lacks.copies
        words = f"Cannot say: {unsaid}." if unsaid else "The capture holds no copies."
        return Section("copies", "Copies", (Words(words),), brief=True)
    columns = (
        Column("device"), Column("direction"), Column("from"), Column("to"), count_column("copies"),
        bytes_column("size"), us_column("summed"), us_column("union"), us_column("under kernels"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            device_name(own.device, own.rank), own.direction, own.src_kind, own.dst_kind, Quantity(own.copies, "count"),
            number(own.size_bytes, "bytes", NO_SIZE), Quantity(own.sum_ns, "ns"), Quantity(own.union_ns, "ns"),
            number(own.hidden_under_kernels_ns, "ns", NOT_ALL),
        )
        for own in figures.copies
    ]  # fmt: skip
    blocks: list[Block] = [table("Copies by direction and kind of memory", columns, rows)]
    if figures.hidden:
        blocks.append(_hidden(figures))
    if figures.lacks.directions:
        blocks.append(Words(f"Which copies reached a device cannot be said: {figures.lacks.directions}."))
    blocks += basis(figures, KINDS, unsaid=("exposed",))
    return Section("copies", "Copies", tuple(blocks), brief=True)


def _hidden(figures: CaptureFigures) -> Block:
    columns = (
        Column("device"), count_column("copies"), us_column("union"), us_column("under kernels"),
        us_column("under index building"), us_column("under either"), us_column("exposed"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            device_name(own.device, own.rank), Quantity(own.copies, "count"), Quantity(own.union_ns, "ns"),
            number(own.under_kernels_ns, "ns", NOT_ALL), number(own.under_index_building_ns, "ns", NO_RANGES),
            number(own.under_anything_ns, "ns", NOT_ALL if own.under_kernels_ns is None else NO_RANGES),
            number(own.exposed_ns, "ns", own.exposed_reason),
        )
        for own in figures.hidden
    ]  # fmt: skip
    return table("Copies to the device, and what they were hidden under", columns, rows)


def pageable_section(figures: CaptureFigures) -> Section:
    """Asynchronous copies of pageable memory and the host time that they blocked."""
    own = figures.pageable
    blocks: list[Block] = [Words(_sentence(own, bool(figures.copies)), emphasis=bool(own.copies))]
    if own.longest:
        columns = (
            Column("device"), Column("direction"), bytes_column("size"), us_column("copy"), us_column("host blocked"),
            Column("call"), Column("step"), Column("correlation"),
        )  # fmt: skip
        rows: list[tuple[Cell, ...]] = [
            (
                device_name(copy.device, copy.rank), copy.direction, number(copy.size_bytes, "bytes", NO_SIZE),
                Quantity(copy.copy_ns, "ns"), Quantity(copy.blocked_ns, "ns"), copy.api or "",
                "none" if copy.step is None else Quantity(copy.step, "exact"), number(copy.correlation, "exact"),
            )
            for copy in own.longest
        ]  # fmt: skip
        blocks.append(table("Those that blocked longest", columns, rows, note=own.reason))
    blocks += basis(figures, COPY_CALLS, KINDS)
    return Section("pageable", "Asynchronous copies of pageable memory", tuple(blocks), brief=True, nav="Pageable")


def blocked(own: PageableFigures) -> str:
    """ "3 asynchronous copies of pageable memory blocked the host for 1.2 ms.", or why nobody can say."""
    if own.copies is None or own.blocked_ns is None:
        return f"Whether asynchronous copies were of pageable memory cannot be said: {own.unsaid}."
    if not own.copies:
        return "No asynchronous copy of pageable memory was found."
    return f"{counted(own.copies, *ASYNCHRONOUS)} of pageable memory blocked the host for {duration(own.blocked_ns)}."


def _sentence(own: PageableFigures, copies: bool) -> str:
    if not copies and own.unsaid is None:
        return "The capture holds no copies."
    found = blocked(own)
    if own.copies and own.copy_ns is not None:
        found = f"{found.removesuffix('.')} ({duration(own.copy_ns)} of copying)."
    if own.unknown_kind:
        copies_ = counted(own.unknown_kind, "copy", "copies")
        found += f" Of {copies_} the capture does not tell the host's kind of memory."
    if own.unknown_call:
        found += f" The calls of {counted(own.unknown_call, 'copy', 'copies')} of pageable memory were not recorded."
    return found
