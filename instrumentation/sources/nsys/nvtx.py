"""NVTX ranges of an nsys export. A range's name is its text, or the registered string that its textId names."""

from __future__ import annotations

import re

import numpy as np

from ..arrays import ABSENT, BoolArray, LongArray, distinct, filled
from ..trace import RANGE, HostRows
from .activities import Reading
from .database import Database
from .processes import threads

TABLE = "NVTX_EVENTS"
_RANGES = ("NvtxPushPopRange", "NvtxStartEndRange", "NvtxtPushPopRange", "NvtxtStartEndRange")
_RANGE_TYPES = (59, 60, 70, 71)
_DOMAIN = "NvtxDomainCreate"
_DOMAIN_TYPE = 75
_NUMBERED = re.compile(r",? (?:op_id|seq) = \d+")
"""emit_nvtx numbers every use of an operator: without the numbers the uses have one name."""


def range_rows(reading: Reading, last_ns: int) -> HostRows:
    """Push/pop and start/end ranges. A range that was never closed ends with the capture, and is counted: with the last
    range or at `last_ns`, the end of everything else. A table without a column of ends gives none: nobody knows how
    long one lasted."""
    database = reading.database
    columns = database.integers(TABLE, "start", "end", "eventType", "globalTid", "textId", "domainId")
    types = event_types(database)
    names = _names(reading, columns["textId"])
    domains = _domains(columns, names, columns["eventType"] == types.get(_DOMAIN, _DOMAIN_TYPE))
    wanted = [types.get(name, number) for name, number in zip(_RANGES, _RANGE_TYPES, strict=True)]
    is_range = np.isin(columns["eventType"], wanted) & (columns["start"] != ABSENT)
    columns = {name: values[is_range] for name, values in columns.items()}
    end = _closed(reading, columns, last_ns) if "end" in database.columns(TABLE) else columns["end"]
    good = reading.valid(TABLE, columns["start"], end)
    return HostRows(
        process=reading.processes.of(columns["globalTid"])[good], thread=threads(columns["globalTid"])[good],
        start=columns["start"][good], end=end[good], correlation=filled(int(good.sum())),
        kind=filled(int(good.sum()), RANGE), name=names[is_range][good], domain=domains[is_range][good],
    )


def event_types(database: Database) -> dict[str, int]:
    """This file's numbers of the kinds of events that are read; none where it has no table of them."""
    rows = database.rows("ENUM_NSYS_EVENT_TYPE", "name", "id")
    return {
        name: number for name, number in rows
        if isinstance(name, str) and isinstance(number, int) and name in (*_RANGES, _DOMAIN)
    }  # fmt: skip


def kept_types(database: Database) -> tuple[int, ...]:
    """Numbers of the events that are read: ranges, and names of domains."""
    types = event_types(database)
    ranges = (types.get(name, number) for name, number in zip(_RANGES, _RANGE_TYPES, strict=True))
    return (*ranges, types.get(_DOMAIN, _DOMAIN_TYPE))


def _names(reading: Reading, text_ids: LongArray) -> LongArray:
    """Code of COALESCE(text, StringIds[textId]) of every row."""
    database = reading.database
    codes = filled(len(text_ids), reading.names.code("[range without a name]"))
    has_text = database.presence(TABLE, "text").astype(np.bool_)
    if has_text.any():
        codes[has_text] = reading.names.codes([_bare(text) for text in database.texts(TABLE, "text")])
    wanted = np.where(has_text, ABSENT, text_ids)
    ids, place = distinct(wanted)
    texts = database.strings(ids)
    own = np.array([reading.names.code(_bare(texts[key])) if key in texts else ABSENT for key in ids.tolist()])
    found = own[place] if len(own) else codes
    return np.where(found == ABSENT, codes, found)


def _bare(text: str) -> str:
    return _NUMBERED.sub("", text) if " = " in text else text


def _domains(columns: dict[str, LongArray], names: LongArray, creates: BoolArray) -> LongArray:
    """Code of the name of each row's domain; ABSENT for the default domain and for one that was never named.

    Domain numbers count within a process.
    """
    process = np.where(columns["globalTid"] == ABSENT, ABSENT, columns["globalTid"] >> 24)
    known = {
        (int(process[row]), int(columns["domainId"][row])): int(names[row]) for row in np.flatnonzero(creates).tolist()
    }
    found = filled(len(names))
    for (owner, domain), name in known.items():
        found[(process == owner) & (columns["domainId"] == domain)] = name
    return found


def _closed(reading: Reading, columns: dict[str, LongArray], last_ns: int) -> LongArray:
    """Ends; those of ranges that were never closed are the capture's."""
    open_ = columns["end"] == ABSENT
    if not open_.any():
        return columns["end"]
    last = max(int(columns["start"].max()), int(columns["end"].max()), last_ns)
    reading.note("ranges that never closed", int(open_.sum()))
    return np.where(open_, last, columns["end"])
