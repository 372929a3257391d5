"""Integer columns straight from the pages of an SQLite file: several times as fast as one SQL value after the other.

The file format is public (sqlite.org/fileformat2.html): a table is a tree of pages, its leaves hold records, a record
is a header of serial types and the values behind it. Only what nsys writes is read here: rows that fit on their page,
integers and nulls in the wanted columns. For anything else `read_columns` says None, and the caller asks SQLite.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..arrays import ABSENT, LongArray, whole_numbers

Bytes = npt.NDArray[np.uint8]

_INTERIOR, _LEAF = 5, 13
_PAGES_AT_ONCE = 2048
_FLOAT, _ZERO, _FIRST_BLOB = 7, 8, 12
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((kind - 12) >> 1 for kind in range(12, 128))], dtype=np.int64)
"""Bytes of a value by serial type: null, integers of 1 to 8 bytes, float, the constants 0 and 1, two that do not
occur, blobs and texts."""
_MAX_DEPTH = 20


class OddFormatError(Exception):
    """The file holds something that this reader leaves to SQLite."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column by its place in the record; `presence`: whether it is not null, instead of its value."""

    place: int
    presence: bool = False


class PageReader:
    """The pages of one file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        head = self._map[:100]
        size = int.from_bytes(head[16:18], "big")
        self._size = 65536 if size == 1 else size
        self._usable = self._size - head[20]
        if self._size < 512 or self._size & (self._size - 1) or self._usable < 480:
            raise OddFormatError("page size")
        count = len(self._map) // self._size
        self._pages: Bytes = np.frombuffer(self._map, dtype=np.uint8, count=count * self._size).reshape(count, -1)

    def close(self) -> None:
        """Let go of the file."""
        self._pages = np.zeros((0, 0), dtype=np.uint8)
        with suppress(BufferError):  # an error that is under way may still hold rows; the map goes with them
            self._map.close()

    def read_columns(self, root: int, wanted: Sequence[Wanted]) -> list[LongArray] | None:
        """One array a wanted column, rows in the order of their rowid; None for what SQLite has to read."""
        try:
            leaves = self._leaves(root)
            parts = [
                self._batch(leaves[place : place + _PAGES_AT_ONCE], wanted)
                for place in range(0, len(leaves), _PAGES_AT_ONCE)
            ]
        except (OddFormatError, IndexError):
            return None
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def _leaves(self, root: int) -> LongArray:
        """Numbers (from 0) of the leaf pages in order."""
        level = [root - 1]
        for _ in range(_MAX_DEPTH):
            if not all(0 <= page < len(self._pages) for page in level):
                raise OddFormatError("page number")
            kinds = {int(self._pages[page, 100 if page == 0 else 0]) for page in level}
            if kinds == {_LEAF}:
                if len(set(level)) != len(level) or 0 in level:
                    raise OddFormatError("tree")
                return np.array(level, dtype=np.int64)
            if kinds != {_INTERIOR} or len(level) > len(self._pages):
                break
            level = [child for page in level for child in self._children(page)]
        raise OddFormatError("tree")

    def _children(self, page: int) -> list[int]:
        data = self._pages[page]
        begin = 100 if page == 0 else 0
        cells = _u16(data, begin + 3)
        rightmost = int.from_bytes(data[begin + 8 : begin + 12].tobytes(), "big")
        pointers = data[begin + 12 : begin + 12 + 2 * cells].astype(np.int64).reshape(-1, 2)
        at = (pointers[:, 0] << 8) | pointers[:, 1]
        children = sum(data[at + n].astype(np.int64) << (24 - 8 * n) for n in range(4))
        return [*(np.atleast_1d(children) - 1).tolist()[: len(at)], rightmost - 1]

    def _batch(self, leaves: LongArray, wanted: Sequence[Wanted]) -> list[LongArray]:
        pages = self._pages[leaves]
        cells = (pages[:, 3].astype(np.int64) << 8) | pages[:, 4]
        if (8 + 2 * cells > self._size).any():
            raise OddFormatError("cells")
        page = np.repeat(np.arange(len(leaves)), cells)
        number = np.arange(len(page)) - np.repeat(np.cumsum(cells) - cells, cells)
        at = 8 + 2 * number
        pointer = (pages[page, at].astype(np.int64) << 8) | pages[page, at + 1]
        data = np.concatenate((pages.ravel(), np.zeros(16, dtype=np.uint8)))
        return self._records(data, page * self._size + pointer, (page + 1) * self._size, wanted)

    def _records(
        self, data: Bytes, cell: LongArray, limit: LongArray, wanted: Sequence[Wanted]
    ) -> list[LongArray]:
        size, place = _varint(data, cell)
        if (size > self._usable - 35).any():
            raise OddFormatError("overflow")
        _, start = _varint(data, place)
        if (start + size > limit).any():
            raise OddFormatError("record")
        header, at = _varint(data, start)
        value = start + header
        if (value > start + size).any():
            raise OddFormatError("header")
        columns = max(entry.place for entry in wanted) + 1
        if (value - at < columns).any():
            raise OddFormatError("fields")
        kinds = data[at[:, None] + np.arange(columns)]
        if (kinds < 0x80).all():
            return _aligned(data, kinds, value, start + size, wanted)
        return _walked(data, at, value, start + size, wanted)


def _aligned(data: Bytes, kinds: Bytes, value: LongArray, end: LongArray, wanted: Sequence[Wanted]) -> list[LongArray]:
    """The usual case: every serial type is one byte. `kinds` is [rows, columns]."""
    if ((kinds == 10) | (kinds == 11)).any():
        raise OddFormatError("serial type")
    behind = value[:, None] + np.cumsum(_SIZES[kinds], axis=1)
    if (behind[:, -1] > end).any():
        raise OddFormatError("values")
    words, found = _words(data), []
    for entry in wanted:
        kind = kinds[:, entry.place].astype(np.int64)
        at = behind[:, entry.place] - _SIZES[kind]
        found.append((kind != 0).astype(np.int64) if entry.presence else _integers(words, kind, _SIZES[kind], at))
    return found


def _words(data: Bytes) -> npt.NDArray[np.int64]:
    """The eight bytes from each byte on, as a number."""
    return np.lib.stride_tricks.as_strided(data[:8].view(">i8"), shape=(len(data) - 8,), strides=(1,))


def _walked(data: Bytes, at: LongArray, value: LongArray, end: LongArray, wanted: Sequence[Wanted]) -> list[LongArray]:
    """Walks over the columns of all records at once: `at` is the next serial type, `value` its value."""
    words = _words(data)
    header_end = value.copy()
    found: dict[Wanted, LongArray] = {}
    for place in range(max(entry.place for entry in wanted) + 1):
        if (at >= header_end).any():
            raise OddFormatError("fields")
        kind, at = _varint(data, at)
        if (kind == 10).any() or (kind == 11).any():
            raise OddFormatError("serial type")
        size = np.where(kind < _FIRST_BLOB, _SIZES[np.minimum(kind, _FIRST_BLOB)], (kind - _FIRST_BLOB) >> 1)
        for entry in wanted:
            if entry.place == place:
                found[entry] = (kind != 0).astype(np.int64) if entry.presence else _integers(words, kind, size, value)
        value = value + size
    if (value > end).any():
        raise OddFormatError("values")
    return [found[entry] for entry in wanted]


def _integers(words: npt.NDArray[np.int64], kind: LongArray, size: LongArray, value: LongArray) -> LongArray:
    """Eight bytes from each value on, shifted until only its own are left. Of floats the whole ones are numbers, ABSENT
    the others: a table that went through pandas keeps a column with nulls so."""
    if (kind >= _FIRST_BLOB).any():
        raise OddFormatError("text")
    shift = np.where(size > 0, 64 - 8 * size, 0)
    read = words[value].astype(np.int64) >> shift
    found = np.where(kind == 0, ABSENT, np.where(size > 0, read, kind - _ZERO))
    real = kind == _FLOAT
    if real.any():
        found[real] = whole_numbers(read[real].view(np.float64))
    return found


def _varint(data: Bytes, at: LongArray) -> tuple[LongArray, LongArray]:
    """(value, place behind it) of the numbers of 1 to 9 bytes at `at`."""
    byte = data[at].astype(np.int64)
    value, more = byte & 0x7F, byte >= 0x80
    place = at + 1
    for _ in range(7):
        if not more.any():
            return value, place
        rows = np.flatnonzero(more)
        byte = data[place[rows]].astype(np.int64)
        value[rows] = (value[rows] << 7) | (byte & 0x7F)
        place[rows] += 1
        more[rows] = byte >= 0x80
    if more.any():
        raise OddFormatError("number")
    return value, place


def _u16(data: Bytes, at: int) -> int:
    return (int(data[at]) << 8) | int(data[at + 1])
