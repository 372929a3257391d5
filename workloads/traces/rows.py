"""Rows of a trace on their way in: one typed row, one place that judges and counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from .timestamps import BadTimestamp, scaled_ns, wall_time_ns

_NUMBER = re.compile(r"[+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_MAX_COUNT = 1 << 40
"""Above every length there is; sums of such counts stay in int64."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One usable request. `time_ns` has the trace's own origin; `hash_ids` is empty where the trace has none."""

    time_ns: int
    prompt_len: int
    output_len: int
    hash_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where a format keeps what: names, never positions, because columns move between versions of a trace."""

    prompt: str
    output: str
    time: str | None = None
    unit_ns: int | None = None  # None: wall-clock text
    total: str | None = None
    hashes: str | None = None
    hash_block: int = 0

    def to_ns(self, raw: object) -> int:
        """The row's time as nanoseconds, 0 where the format has none. Raises BadTimestamp."""
        if self.time is None:
            return 0
        if self.unit_ns is not None:
            return scaled_ns(raw, self.unit_ns)
        return wall_time_ns(str(raw))

    @property
    def required(self) -> frozenset[str]:
        """Names that a file of this format has."""
        return frozenset(name for name in (self.prompt, self.output, self.time, self.hashes) if name)


@dataclass(slots=True)
class RowSieve:
    """Keeps usable rows and counts the others by reason. Written by the readers, row by row, in file order.

    missing_timestamp   empty or blank: never read as 0, which would put the request first
    invalid_timestamp   there, but not a time
    invalid_tokens      a count that is absent, negative, no integer or absurd, or a prompt of 0 with an answer
    zero_output         no token came back: a failed request
    hash_mismatch       prefix hashes do not cover the prompt exactly
    malformed           not a row of this format at all, e.g. a torn last line
    """

    rows: list[TraceRow] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    total_mismatches: list[int] = field(default_factory=list)

    def skip(self, reason: str) -> None:
        """Count one row that is not used."""
        self.skipped[reason] += 1

    def take(self, row: Mapping[str, object], columns: Columns, line: int) -> None:
        """Judge one row. A total that is not prompt + output is only a warning: both parts are there."""
        raw_time = row.get(columns.time) if columns.time else 0
        if raw_time is None or (isinstance(raw_time, str) and not raw_time.strip()):
            return self.skip("missing_timestamp")
        prompt, output = _count(row.get(columns.prompt)), _count(row.get(columns.output))
        if prompt is None or output is None or prompt < 0 or output < 0:
            return self.skip("invalid_tokens")
        if output == 0:
            return self.skip("zero_output")
        if prompt == 0:
            return self.skip("invalid_tokens")
        hash_ids = _hash_ids(row.get(columns.hashes)) if columns.hashes else ()
        if hash_ids is None or (columns.hashes and len(hash_ids) != -(-prompt // columns.hash_block)):
            return self.skip("hash_mismatch")
        try:
            time_ns = columns.to_ns(raw_time)
        except BadTimestamp:
            return self.skip("invalid_timestamp")
        if columns.total and _count(row.get(columns.total)) not in (None, prompt + output):
            self.total_mismatches.append(line)
        self.rows.append(TraceRow(time_ns, prompt, output, hash_ids))
        return None


def _count(value: object) -> int | None:
    """An integer, from JSON or from text such as `472`, `472.0` or `4.72e2`; None for anything else."""
    whole = _whole(value)
    return whole if whole is not None and abs(whole) <= _MAX_COUNT else None


def _whole(value: object) -> int | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = Decimal(value.strip())
    if isinstance(value, Decimal):
        sane = value.is_finite() and value.adjusted() < 60  # int() of 1e999999 would take all memory
        return int(value) if sane and value == value.to_integral_value() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _hash_ids(value: object) -> tuple[int, ...] | None:
    """Ids of any size; a float that is whole counts as the integer that it is."""
    if not isinstance(value, list):
        return None
    ids = tuple(_whole(item) for item in value if not isinstance(item, str))
    return tuple(item for item in ids if item is not None) if None not in ids and len(ids) == len(value) else None
