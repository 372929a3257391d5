"""An nsys export as a read-only database: which tables it has, and their columns in bulk.

Tables are created lazily and gain columns from version to version (and users add their own): every column is asked
for by its name, an absent one reads as ABSENT throughout. SQLite is dynamically typed: a value that is no integer of
64 bits, nor a float or a text that stands for one, reads as ABSENT too.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np

from ....errors import UsageError
from ..arrays import ABSENT, LARGEST, LongArray, filled, whole_numbers
from .bulk import parse_integers
from .pages import OddFormatError, PageReader, Wanted

_SUFFIX = re.compile(r"(?P<base>.+)_V(?P<version>\d+)$")
_ROWS_AT_ONCE = 65_536


class Database:
    """One export. Each thread opens its own; close it when done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        with self._readable():
            self._connection = sqlite3.connect(address, uri=True, check_same_thread=False)
            self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            rows = self._connection.execute(
                "SELECT name, rootpage FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
        self._roots = {str(name): root for name, root in rows if isinstance(root, int)}
        self._tables = _newest({str(name) for name, _ in rows})
        self._ordered: dict[str, str] = {}
        self._pages = _pages(path)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        if self._pages is not None:
            self._pages.close()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the message quotes a damaged name
            reason = str(error).split(" - ")[0].splitlines()[0]  # what follows quotes the file
            raise UsageError(
                f"{self.path}: damaged or no SQLite database ({reason}); export it again with nsys export -t sqlite"
            ) from error

    def has(self, table: str) -> bool:
        """Whether there is a table of this name, with or without a version suffix, of whatever length."""
        return table in self._tables

    def quoted(self, table: str) -> str:
        """The table's name as this file has it, version suffix and all, for use in SQL. Raises KeyError for none."""
        return _quoted(self._tables[table])

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of the table's columns; none where there is no table."""
        name = self._tables.get(table)
        if name is None:
            return ()
        with self._readable():
            return tuple(str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({_quoted(name)})"))

    def integers(self, table: str, *names: str) -> dict[str, LongArray]:
        """Whole columns, all of one length and in one order."""
        present = [name for name in names if name in self.columns(table)]
        found = self._read(table, present) if present else {}
        length = len(next(iter(found.values()))) if found else 0
        return {name: found[name] if name in found else filled(length) for name in names}

    def presence(self, table: str, column: str) -> LongArray:
        """1 where the column is not null, row by row in the order of `integers`."""
        if column not in self.columns(table):
            return filled(self.count(table), 0)
        return self._read(table, [column], presence=True)[column]

    def count(self, table: str) -> int:
        """Rows of the table; 0 where there is none."""
        name = self._tables.get(table)
        if name is None:
            return 0
        with self._readable():
            return int(self._connection.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0])

    def texts(self, table: str, column: str) -> list[str]:
        """The column where it is not null, in the order of `integers`."""
        if column not in self.columns(table):
            return []
        shown = _quoted(column)
        with self._readable():
            name = _quoted(self._in_order(table))
            rows = self._connection.execute(f"SELECT {shown} FROM {name} WHERE {shown} IS NOT NULL ORDER BY rowid")
            return [value if isinstance(value, str) else str(value) for (value,) in rows]

    def rows(self, table: str, *names: str) -> list[tuple[object, ...]]:
        """A small table; None stands for an absent column."""
        present = self.columns(table)
        if not present:
            return []
        shown = ", ".join(_quoted(name) if name in present else "NULL" for name in names)
        with self._readable():
            return self._connection.execute(f"SELECT {shown} FROM {_quoted(self._tables[table])}").fetchall()

    def strings(self, wanted: LongArray) -> dict[int, str]:
        """Texts of StringIds for these ids, and for no others: the table also holds what the program printed."""
        ids = sorted({int(value) for value in wanted.tolist() if value != ABSENT})
        found: dict[int, str] = {}
        if not {"id", "value"} <= set(self.columns("StringIds")):
            return found
        name = _quoted(self._tables["StringIds"])
        with self._readable():
            for place in range(0, len(ids), 500):
                part = ids[place : place + 500]
                marks = ",".join("?" * len(part))
                rows = self._connection.execute(f"SELECT id, value FROM {name} WHERE id IN ({marks})", part)
                found.update((int(key), value) for key, value in rows if isinstance(value, str))
        return found

    def _read(self, table: str, names: Sequence[str], *, presence: bool = False) -> dict[str, LongArray]:
        direct = self._from_pages(self._tables[table], names, presence)
        if direct is not None:
            return direct
        expressions = {name: f"{_quoted(name)} IS NOT NULL" if presence else _quoted(name) for name in names}
        parts: dict[str, list[LongArray]] = {column: [] for column in expressions}
        with self._readable():
            name = _quoted(self._in_order(table))
            for block in self._blocks(name, list(expressions.values())):
                for column, values in zip(expressions, block, strict=True):
                    parts[column].append(values)
        return {column: np.concatenate(blocks) if blocks else filled(0) for column, blocks in parts.items()}

    def _in_order(self, table: str) -> str:
        """Name of the table, or of a temporary copy of what has no row numbers: a view, or a table made without."""
        name = self._tables[table]
        if name not in self._ordered:
            self._ordered[name] = name if self._has_rowids(name) else f"stepscope copy of {name}"
            if self._ordered[name] != name:
                copy = _quoted(self._ordered[name])
                self._connection.execute(f"CREATE TEMP TABLE {copy} AS SELECT * FROM {_quoted(name)}")
        return self._ordered[name]

    def _has_rowids(self, name: str) -> bool:
        if not self._roots.get(name):
            return False
        try:
            self._connection.execute(f"SELECT rowid FROM {_quoted(name)} LIMIT 0")
        except sqlite3.OperationalError:
            return False
        return True

    def _from_pages(self, table: str, names: Sequence[str], presence: bool) -> dict[str, LongArray] | None:
        """The same from the file's pages; None for tables whose records are not laid out as their columns stand."""
        if self._pages is None or not self._roots.get(table):
            return None
        with self._readable():
            told = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
        if any(key or hidden for *_, key, hidden in told):
            return None
        places = {str(row[1]): place for place, row in enumerate(told)}
        found = self._pages.read_columns(self._roots[table], [Wanted(places[name], presence) for name in names])
        return None if found is None else dict(zip(names, found, strict=True))

    def _blocks(self, table: str, expressions: Sequence[str]) -> Iterator[list[LongArray]]:
        """SQLite joins each column of a block into one text itself: a tenth of the time of a Python object a value."""
        inner = f"SELECT rowid AS at, {_aliased(expressions)} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?"
        joined = ", ".join(f"group_concat(ifnull(c{n}, ''), char(10))" for n in range(len(expressions)))
        last = ABSENT
        while True:
            row = self._connection.execute(
                f"SELECT count(*), max(at), {joined} FROM ({inner})", (last, _ROWS_AT_ONCE)
            ).fetchone()
            if not row[0]:
                return
            if row[1] <= last:  # of a damaged table; from there it would begin again, and for ever
                raise sqlite3.DatabaseError(f"row numbers of {table} do not ascend")
            block = parse_integers(row[2:], row[0])
            yield block if block is not None else self._one_by_one(inner, last, len(expressions))
            last = row[1]
            if last == LARGEST:
                return

    def _one_by_one(self, inner: str, last: int, width: int) -> list[LongArray]:
        rows = self._connection.execute(inner, (last, _ROWS_AT_ONCE)).fetchall()
        return [np.array([_integer(row[n + 1]) for row in rows], dtype=np.int64) for n in range(width)]


def _pages(path: Path) -> PageReader | None:
    try:
        return PageReader(path)
    except (OddFormatError, OSError, ValueError, IndexError):
        return None


def _newest(tables: set[str]) -> dict[str, str]:
    """Name without a version suffix → the table to read: the highest version."""
    found: dict[str, tuple[int, str]] = {}
    for name in sorted(tables):
        match = _SUFFIX.match(name)
        base, version = (match["base"], int(match["version"])) if match else (name, 0)
        found[base] = max(found.get(base, (-1, "")), (version, name))
    return {base: name for base, (_, name) in found.items()}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _aliased(expressions: Sequence[str]) -> str:
    return ", ".join(f"{expression} AS c{n}" for n, expression in enumerate(expressions))


def _integer(value: object) -> int:
    if isinstance(value, (bytes, str)):
        try:
            value = int(value)
        except ValueError:
            return ABSENT
    if isinstance(value, float):
        return int(whole_numbers(np.array([value]))[0])
    return value if isinstance(value, int) and ABSENT < value <= LARGEST else ABSENT
