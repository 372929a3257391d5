"""Section: are the staged buffers pinned, reused, and safe from being overwritten under a copy?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..document import Block, Cell, Column, Missing, Quantity, Section, Words
from ..formatting import cell, duration
from .cells import bytes_column, count_column, number, records, table, us_column, word

NO_BUFFERS = "the recording holds no use of a staged buffer"
DEVICE = "device"
"""Memory of the rows that are about a buffer's device side."""


def buffers_section(pinned: pd.DataFrame, origin: str, has_device: bool = True) -> Section:
    """Two tables a buffer: memory and reuse with the verdicts, and the bytes that moved."""
    rows = list(records(pinned))
    if not rows:
        return Section("buffers", "Pinned buffers", (Words(f"Not measured: {NO_BUFFERS}."),), brief=True)
    blocks: tuple[Block, ...] = (
        Words(headline_words(pinned, has_device), emphasis=True),
        *((_reuse_table(rows, origin),) if any(row["uses"] for row in rows) else ()), _bytes_table(rows, origin),
    )
    return Section("buffers", "Pinned buffers", blocks, brief=True)


def _reuse_table(rows: list[dict[str, Any]], origin: str) -> Block:
    why = "no use of the buffer says so"
    body = [
        (
            word(row["buffer"], "a buffer without a name"), word(row["memory"], why),
            *(number(row[name], "count", why) for name in ("slots", "uses", "reuse_max", "waits")),
            number(row["wait_ns"], "ns", why),
            *(number(row[f"hazards_{verdict}"], "count", why) for verdict in ("observed", "possible", "unknown")),
        )
        for row in rows if row["uses"]
    ]
    columns = (
        Column("buffer"), Column("memory"), count_column("slots"), count_column("uses"), count_column("most reuses"),
        count_column("waits", "uses that had to wait for their slot"), us_column("waited in total"),
        count_column("hazards observed"), count_column("possible"), count_column("without verdict"),
    )
    note = (
        "Observed: what arrived is not what was sent, by checksum. Possible: nothing orders the end of the copy before"
        " the next write of its slot, so that an overwrite could happen. Memory `device`: the same of a device buffer,"
        " whose last reader the next copy must not overtake; asked where copies have a stream of their own."
    )
    return table("Memory, reuse and hazards", columns, body, origin, note)


def _bytes_table(rows: list[dict[str, Any]], origin: str) -> Block:
    uses = "the buffer is known from its copies only"
    copies = "no copy of the buffer was recorded, or one without a size"
    body = [
        (
            word(row["buffer"], "a buffer without a name"),
            *(number(row[name], "bytes", uses)
              for name in ("capacity_bytes", "reserved_bytes", "used_p50_bytes", "used_max_bytes")),
            number(row["copies"], "count", copies),
            number(row["copied_bytes"], "bytes", copies),
            number(row["changed_bytes"], "bytes", "not every copy says how much of it changed"),
            *(number(row[name], "count", copies) for name in ("async_pageable", "async_unknown")),
        )
        for row in rows
    ]
    columns = (
        Column("buffer"), bytes_column("capacity"), bytes_column("reserved"), bytes_column("used, p50"),
        bytes_column("used, most"), count_column("copies"), bytes_column("copied"), bytes_column("changed"),
        count_column("async but pageable", "asynchronous copies whose host side is pageable: synchronous in fact"),
        count_column("async, memory unknown"),
    )
    note = "Reserved counts all slots; the caching host allocator rounds up to powers of two."
    return table("Bytes held and moved", columns, body, origin, note)


def headline_words(pinned: pd.DataFrame, has_device: bool = True) -> str:
    """The answer to the third question. Without a device nobody asks whether memory is pinned."""
    rows = list(records(pinned))
    staged = [row for row in rows if row["uses"]]
    if not staged:
        return f"Not measured: {NO_BUFFERS}."
    hosts = [row for row in staged if row["memory"] != DEVICE]
    pinned_names = [row["buffer"] for row in hosts if row["memory"] == "pinned"]
    fake = [row["buffer"] for row in rows if row["async_pageable"]]
    reuse = max((row["reuse_max"] or 0 for row in hosts), default=0)
    locked = f"{len(pinned_names)} of {len(hosts)} staged buffers are pinned" if has_device else (
        "There is no device to copy to, so nothing is pinned"
    )
    sentences = [
        f"{locked}; a slot is reused up to {reuse} times.", _hazard_words(staged), _wait_words(staged),
    ]
    if fake:
        sentences.append(f"Asynchronous in name only, as their host memory is pageable: {', '.join(map(str, fake))}.")
    return " ".join(sentences)


def _hazard_words(rows: list[dict[str, Any]]) -> str:
    observed, possible, unknown = (_sum(rows, f"hazards_{v}") for v in ("observed", "possible", "unknown"))
    if observed:
        return f"UNSAFE: {observed} uses were overwritten while their copy was in flight; {possible} more could be."
    if possible:
        return f"No overwrite was observed, but {possible} uses are not ordered behind their copy and could be."
    if unknown:
        return f"No hazard is known; {unknown} uses have no verdict."
    return "No slot was overwritten, or could have been, while its copy was in flight."


def _wait_words(rows: list[dict[str, Any]]) -> str:
    waits = _sum(rows, "waits")
    return f"The host waited {waits} times for a slot, {duration(_sum(rows, 'wait_ns'))} in total." if waits else (
        "The host never waited for a slot."
    )


def headline_figures(pinned: pd.DataFrame) -> tuple[tuple[str, Cell], ...]:
    """The figures under that sentence."""
    rows = [row for row in records(pinned) if row["uses"]]
    if not rows:
        return (("staged buffers", Missing(NO_BUFFERS)),)
    reserved = [row["reserved_bytes"] for row in rows if row["memory"] != DEVICE]
    whole = Missing("a buffer does not say what it reserves") if None in reserved else Quantity(sum(reserved), "bytes")
    return (
        ("hazards observed", Quantity(_sum(rows, "hazards_observed"), "count")),
        ("hazards possible", Quantity(_sum(rows, "hazards_possible"), "count")),
        ("reserved", whole),
        ("async but pageable", cell(Quantity(_sum(list(records(pinned)), "async_pageable"), "count"))),
    )


def _sum(rows: list[dict[str, Any]], name: str) -> int:
    return sum(row[name] or 0 for row in rows)
