"""Columns of a Recording's tables as NumPy arrays, without losing a nanosecond or mistaking null for 0.

Every column of every table is nullable. `Columns` gives values plus a validity mask, so that int64 times never pass
through float64, and an absent column reads as "all null".

Lifetimes: a column leaves pandas once, at its first use, and is shared by all who ask for it: the arrays are
read-only, and a frame must not be written to while `Columns` of it are in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Columns:
    """A table, or with `Columns(...)[mask]` some of its rows."""

    __slots__ = ("_cache", "_frame", "_length", "_names", "_parent", "_rows")

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame: pd.DataFrame | None = frame
        self._parent: Columns | None = None
        self._rows: npt.NDArray[np.intp] | None = None
        self._length = len(frame)
        self._cache: dict[tuple[str, str], Pair] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, chosen: BoolArray) -> Columns:
        """The rows where the mask `chosen` is true, in order."""
        rows = np.flatnonzero(chosen)
        if len(rows) == self._length:
            return self
        part = Columns.__new__(Columns)
        part._frame, part._parent, part._rows, part._length = None, self, rows, len(rows)
        part._cache, part._names = {}, self._names
        return part

    def ints(self, name: str) -> tuple[LongArray, BoolArray]:
        """Values (0 where null) and validity of an integer column, exactly. Raises on a fraction."""
        return self._column("ints", name)

    def floats(self, name: str) -> tuple[FloatArray, BoolArray]:
        """Values (0 where null) and validity of a float column."""
        return self._column("floats", name)

    def texts(self, name: str) -> list[str | None]:
        """A string column as Python strings, None where null."""
        codes, names = self.coded(name)
        known: list[str | None] = [*names, None]  # code -1 finds the None at the end
        return [known[code] for code in codes.tolist()]

    def coded(self, name: str) -> tuple[LongArray, tuple[str, ...]]:
        """A string column as codes into the names that the whole table has in it; -1 where null."""
        codes, _ = self._column("codes", name)
        return codes, self._names[name]

    def matches(self, name: str, *wanted: str) -> BoolArray:
        """Rows whose string column is one of `wanted`; null never matches."""
        codes, names = self.coded(name)
        chosen = np.zeros(self._length, dtype=np.bool_)
        for code, text in enumerate(names):
            if text in wanted:
                chosen |= codes == code
        return chosen

    def flags(self, name: str, *, null: bool) -> BoolArray:
        """A bool column, with `null` standing in where nothing was recorded."""
        values, valid = self._column("flags", name)
        return np.where(valid, values, null)

    def _column(self, kind: str, name: str) -> Pair:
        found = self._cache.get((kind, name))
        if found is None:
            found = self._extract(kind, name) if self._parent is None else self._inherit(self._parent, kind, name)
            for array in found:
                array.flags.writeable = False
            self._cache[kind, name] = found
        return found

    def _inherit(self, parent: Columns, kind: str, name: str) -> Pair:
        values, valid = parent._column(kind, name)
        return values[self._rows], valid[self._rows]

    def _extract(self, kind: str, name: str) -> Pair:
        frame = self._frame
        assert frame is not None, "only a part has no frame"
        if name not in frame.columns:
            self._names.setdefault(name, ())
            empty = np.zeros(self._length, dtype=_DTYPES[kind])
            return empty - 1 if kind == "codes" else empty, np.zeros(self._length, dtype=np.bool_)
        if kind == "codes":
            codes, names = pd.factorize(frame[name])
            self._names[name] = tuple(names.tolist())
            return np.array(codes, dtype=np.int64), codes >= 0
        array = frame[name].array
        valid = ~np.asarray(array.isna(), dtype=np.bool_)
        if kind != "ints":
            array = array.astype(_NULLABLE[kind])
        elif not pd.api.types.is_integer_dtype(array.dtype):  # all-null object or float columns; raises on a fraction
            array = pd.array(array.to_numpy(dtype=object), dtype="Int64")
        return array.to_numpy(dtype=_DTYPES[kind], na_value=0, copy=True), valid


_DTYPES: dict[str, type[np.generic]] = {"ints": np.int64, "floats": np.float64, "flags": np.bool_, "codes": np.int64}
_NULLABLE = {"floats": "Float64", "flags": "boolean"}
