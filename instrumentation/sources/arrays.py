"""Columns of integers as importers keep them: int64 with one value that stands for "absent"."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pandas as pd

LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

ABSENT = int(np.iinfo(np.int64).min)
"""Stands for null in importers' columns; it is no time and no id of any capture, and becomes null in the tables."""
LARGEST = int(np.iinfo(np.int64).max)

_FEW = 500
_FLOATS_TELL = 1 << 53

FURTHEST_NS = 1 << 61
"""Times lie closer to 0 than this (the year 2043), so that the difference of two fits into 64 bits."""
LONGEST_NS = 1 << 47
"""Nothing lasts longer (39 hours): sums of many thousands fit into 64 bits. A longer row is a damaged one."""
BIGGEST_BYTES = 1 << 44
"""No copy is bigger (16 TiB)."""


class Names:
    """Texts as codes: each text once, in order of first appearance."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    def code(self, text: str) -> int:
        """The code of `text`, a new one if it was not seen before."""
        found = self._codes.get(text)
        if found is None:
            found = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return found

    def codes(self, texts: Sequence[str]) -> LongArray:
        """The code of each text."""
        try:
            return longs(map(self._codes.__getitem__, texts), len(texts))
        except KeyError:
            for text in dict.fromkeys(texts):
                self.code(text)
            return longs(map(self._codes.__getitem__, texts), len(texts))

    def text(self, code: int) -> str:
        """The text of a code."""
        return self._texts[code]

    def texts(self) -> tuple[str, ...]:
        """All texts; a code is a place in it."""
        return tuple(self._texts)


def longs(values: Iterable[object], count: int) -> LongArray:
    """An array, not to be written to, of `count` ints (True and False pass as well): three times as fast as
    np.fromiter where they are small. Raises struct.error for what is no int of 64 bits."""
    return cast(LongArray, np.frombuffer(struct.pack(f"{count}q", *values), dtype=np.int64))


def whole_numbers(values: npt.NDArray[np.float64]) -> LongArray:
    """Floats as the integers that they are, as far as a float tells integers apart; ABSENT for the others."""
    with np.errstate(invalid="ignore"):
        whole = (np.abs(values) < _FLOATS_TELL) & (np.rint(values) == values)
    return np.where(whole, np.where(whole, values, 0).astype(np.int64), ABSENT)


def plausible(start: LongArray, end: LongArray) -> BoolArray:
    """Rows with a start and an end that is not before it; 0-0 is a record that was lost."""
    placed = (np.abs(np.maximum(start, -LARGEST)) < FURTHEST_NS) & (np.abs(np.maximum(end, -LARGEST)) < FURTHEST_NS)
    lasting = np.where(placed, end, 0) - np.where(placed, start, 0)
    lost = (start == 0) & (end == 0)
    return np.asarray(placed & (lasting >= 0) & (lasting <= LONGEST_NS) & ~lost)


def sizes(values: LongArray) -> LongArray:
    """Byte counts; what is negative or bigger than any memory is none."""
    return np.where((values < 0) | (values > BIGGEST_BYTES), ABSENT, values)


def empty() -> LongArray:
    """No rows."""
    return np.zeros(0, dtype=np.int64)


def filled(length: int, value: int = ABSENT) -> LongArray:
    """`length` times `value`."""
    return np.full(length, value, dtype=np.int64)


def distinct(values: LongArray) -> tuple[LongArray, LongArray]:
    """(values that occur, in order; place of each row's among them). By hashing: sorting millions takes ten times as
    long; of a few hundred a tenth."""
    if len(values) < _FEW:
        found, place = np.unique(values, return_inverse=True)
        return found, place.reshape(-1)
    codes, found = pd.factorize(values)
    order = np.argsort(found, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return np.asarray(found[order], dtype=np.int64), place[codes]


def grouped(*keys: LongArray) -> tuple[LongArray, LongArray]:
    """Rows with equal keys get equal numbers, in the order of the keys: (number of each row, first row of each)."""
    number = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        found, place = distinct(key)
        number = distinct(number * max(len(found), 1) + place)[1] if len(found) > 1 else number
    count = int(number.max()) + 1 if len(number) else 0
    first = np.empty(count, dtype=np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    return number, first


def members(number: LongArray) -> list[LongArray]:
    """The rows of each group, in their order; `number` as `grouped` gives it. One pass, however many groups."""
    order = np.argsort(number, kind="stable")
    return [order[first:stop] for first, stop in blocks(number[order])]


def rows_by(values: LongArray) -> dict[int, LongArray]:
    """The rows that have each value, in their order: asking for them value by value takes values times rows."""
    return {int(values[own[0]]): own for own in members(values)}


def blocks(sorted_keys: LongArray) -> list[tuple[int, int]]:
    """(begin, end) of the runs of equal values in a sorted array."""
    if not len(sorted_keys):
        return []
    heads = np.flatnonzero(np.concatenate(([True], sorted_keys[1:] != sorted_keys[:-1])))
    return list(zip(heads.tolist(), [*heads[1:].tolist(), len(sorted_keys)], strict=True))
