"""Ranges among the values of an axis.

2^4:2^10     16, 32, 64 ... 1024      powers of one base, both ends included
8:64:8       8, 16, 24 ... 64         steps, both ends included where a step meets the end
1:4          1, 2, 3, 4
2^13         8192
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..errors import UsageError

_RANGE = re.compile(r"(?P<first>[0-9^]+):(?P<last>[0-9^]+)(?::(?P<step>[0-9^]+))?")
_NUMBER = re.compile(r"(?:(?P<base>[0-9]+)\^)?(?P<number>[0-9]+)")
_LOOKS_LIKE_ONE = re.compile(r"-?[0-9.^]+(?::-?[0-9.^]*)+|[0-9]+\^[0-9^]+")
_LARGEST = 1 << 62
MOST = 100_000


def written_out(axis: str, values: object) -> object:
    """`values` with each range in it, or in its place, written out; other values stay. Raises UsageError."""
    if isinstance(values, str) and _LOOKS_LIKE_ONE.fullmatch(values.replace(" ", "")):
        return list(_range(axis, values))
    if not isinstance(values, list):
        return values
    found: list[Any] = []
    for value in values:
        is_one = isinstance(value, str) and _LOOKS_LIKE_ONE.fullmatch(value.replace(" ", ""))
        found += _range(axis, value) if is_one else [value]
    return found


def _range(axis: str, text: str) -> Sequence[int]:
    plain = text.replace(" ", "")
    match = _RANGE.fullmatch(plain)
    if match is None:
        if ":" in plain:
            raise UsageError(f"{axis}: {text} is no range of whole numbers; write 2^4:2^10, 1:4 or 8:64:8")
        return [_number(axis, plain)]
    first, last = _number(axis, match["first"]), _number(axis, match["last"])
    if first > last:
        raise UsageError(f"{axis}: {text} falls; write the smaller end first")
    if "^" in match["first"] or "^" in match["last"]:
        return _powers(axis, text, match)
    step = _number(axis, match["step"]) if match["step"] else 1
    if step < 1:
        raise UsageError(f"{axis}: {text} has a step of {step}; at least 1")
    if (last - first) // step >= MOST:
        raise UsageError(f"{axis}: {text} has {(last - first) // step + 1} values; at most {MOST}")
    return range(first, last + 1, step)


def _powers(axis: str, text: str, match: re.Match[str]) -> Sequence[int]:
    (base, _, low), (other, _, high) = match["first"].partition("^"), match["last"].partition("^")
    if base != other or not low or not high or match["step"] or int(base) < 2:
        raise UsageError(f"{axis}: {text} mixes two kinds of range; write both ends as powers of one base, as 2^4:2^10")
    return [int(base) ** exponent for exponent in range(int(low), int(high) + 1)]


def _number(axis: str, text: str) -> int:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise UsageError(f"{axis}: {text} is no whole number; write 8192 or 2^13")
    base, exponent = match["base"], int(match["number"])
    if base is None:
        return exponent
    if int(base) > 1 and exponent * (int(base).bit_length() - 1) > 62:
        raise UsageError(f"{axis}: {text} is too large; at most {_LARGEST}")
    return int(int(base) ** exponent)
