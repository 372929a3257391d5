"""Arrow tables of a Recording from importers' columns: ABSENT becomes null, repeated texts are stored once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.pandas_compat  # else pyarrow imports these with the first array, in the middle of a load
import pyarrow.vendored.version

from ..recording.convert import arrow_schema
from .arrays import ABSENT, LongArray, distinct
from .trace import CapturedProcess


class TableColumns:
    """One table in the making: `length` rows, columns by the schema's names. What is not set becomes null."""

    def __init__(self, table: str, length: int) -> None:
        self._schema = arrow_schema(table, in_sweep=False)
        self._length = length
        self._columns: dict[str, pa.Array] = {}

    def keys(self, process: LongArray, processes: Sequence[CapturedProcess], clock: str, step: LongArray) -> None:
        """The keys of each row; `step` is a number, ABSENT outside steps."""
        self.ints("pid", _looked_up(process, [own.pid for own in processes]))
        self.ints("rank", _looked_up(process, [own.rank for own in processes]))
        hosts = [own.host or "" for own in processes]
        known = np.array([bool(host) for host in hosts], dtype=np.bool_)
        self.texts("host", np.where(known[process], process, -1) if len(process) else process, hosts)
        self.texts("clock_id", np.zeros(self._length, dtype=np.int64), (clock,))
        self.ints("step", step)

    def ints(self, name: str, values: LongArray) -> None:
        """An integer column."""
        null = values == ABSENT
        self._columns[name] = pa.array(values, pa.int64(), mask=null if null.any() else None)

    def flags(self, name: str, values: npt.NDArray[np.bool_], valid: npt.NDArray[np.bool_] | None = None) -> None:
        """A bool column, null where not `valid`."""
        self._columns[name] = pa.array(values, pa.bool_(), mask=None if valid is None else ~valid)

    def texts(self, name: str, codes: LongArray, texts: Sequence[str]) -> None:
        """A string column as codes into `texts`; negative codes are null. Only texts that occur are kept."""
        first, last = (int(codes.min()), int(codes.max())) if len(codes) else (-1, -1)
        if last < 0:
            self._columns[name] = pa.DictionaryArray.from_arrays(pa.nulls(len(codes), pa.int32()), _strings([]))
            return
        if first == last:
            used, indices = [first], pa.array(np.zeros(len(codes), dtype=np.int32))
        else:
            counts = np.bincount(np.maximum(codes, -1) + 1, minlength=len(texts) + 1)
            used = np.flatnonzero(counts[1:]).tolist()
            place = np.zeros(len(texts), dtype=np.int32)
            place[used] = np.arange(len(used))
            indices = pa.array(place.take(codes, mode="clip"), mask=codes < 0 if first < 0 else None)
        kept = _strings([texts[code] for code in used])
        self._columns[name] = pa.DictionaryArray.from_arrays(indices, kept)

    def lanes(self, kind: LongArray, number: LongArray, prefixes: Sequence[str]) -> None:
        """`lane`: the prefix of each row's kind and its number, "host:41" or "gpu:7"."""
        numbers, place = distinct(number)
        texts = [f"{prefix}:{'unknown' if n == ABSENT else n}" for prefix in prefixes for n in numbers.tolist()]
        self.texts("lane", kind * len(numbers) + place, texts)

    def table(self) -> pa.Table:
        """All columns in the schema's order; texts are dictionary-encoded."""
        columns = [
            self._columns.get(field.name, None) if field.name in self._columns else pa.nulls(self._length, field.type)
            for field in self._schema
        ]
        return pa.table(columns, names=self._schema.names)


def _strings(texts: Sequence[str]) -> pa.Array:
    return pa.array(texts, pa.string())


def _looked_up(process: LongArray, values: Sequence[int | None]) -> LongArray:
    known = np.array([ABSENT if value is None else value for value in values], dtype=np.int64)
    return known[process] if len(known) else process
