"""Columns that SQLite joined into texts, one value a line, as integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import csv

from ..arrays import ABSENT, LongArray


def parse_integers(texts: Sequence[object], count: int) -> list[LongArray] | None:
    """One array of `count` values a text; an empty line is ABSENT. None where a line is something else."""
    found: list[LongArray] = []
    for text in texts:
        values = _column(text, count) if isinstance(text, str) else None
        if values is None:
            return None
        found.append(values)
    return found


def _column(text: str, count: int) -> LongArray | None:
    raw = text.encode() + b"\n"
    try:
        table = csv.read_csv(
            pa.BufferReader(raw),
            csv.ReadOptions(column_names=["value"], use_threads=False, block_size=len(raw) + 1),
            csv.ParseOptions(ignore_empty_lines=False, quote_char=False),
            csv.ConvertOptions(column_types={"value": pa.int64()}, null_values=[""]),
        )
    except pa.ArrowInvalid:
        return None
    if len(table) != count:
        return None
    column = table.column(0).combine_chunks()
    return np.asarray(column.fill_null(ABSENT).to_numpy(zero_copy_only=False), dtype=np.int64)
