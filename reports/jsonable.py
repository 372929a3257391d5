"""Any view as strict JSON: names with units stay, what was not measured is null, no NaN and no Infinity.

Integers keep every digit (Python's and most readers' do; JavaScript's Number loses them beyond 2^53).
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Alone, from a name of bytes that are no UTF-8: no file can hold one, its escape can be anywhere."""


def to_json(value: object) -> str:
    """`value` as indented strict JSON; ends with a newline."""
    text = json.dumps(plain(value), allow_nan=False, indent=1, ensure_ascii=False) + "\n"
    return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def plain(value: Any) -> Any:
    """Dataclasses, tables, arrays and scalars as dicts, lists, numbers, texts and None."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return _sequence(value)


def _sequence(value: Any) -> Any:
    if isinstance(value, pd.DataFrame):
        columns = {str(name): plain(value[name]) for name in value.columns}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if isinstance(value, pd.Series):
        return [plain(item) for item in value.array]  # item by item: a null must not turn its column into floats
    if isinstance(value, (np.ndarray, frozenset, set)):
        return [plain(item) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)
