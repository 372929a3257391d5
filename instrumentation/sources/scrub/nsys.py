"""A cleaned nsys export: a new database, filled from lists of what may stay. Nothing is deleted from a copy of the old
one, so no free page can hold what was there."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from ....errors import UsageError
from ..nsys.about import environment, facts, lost_events
from ..nsys.database import Database
from ..nsys.enums import copy_kinds, memory_kinds
from ..nsys.nvtx import event_types, kept_types
from ..nsys.report_file import export_report
from .columns import NAMES, NUMBERS, RANGES

_NUMBER = (
    "CASE WHEN typeof({0}) IN ('integer', 'real') THEN {0}"
    " WHEN typeof({0}) = 'text' AND CAST(CAST({0} AS INTEGER) AS TEXT) = {0} THEN CAST({0} AS INTEGER) END"
)
_VERSIONS = {
    "schema_version": ("META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION"),
    "product_version": ("META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION"),
    "graph_trace": ("META_DATA_CAPTURE", "CUDA_GRAPH_TRACE_OPTIONS:MODE"),
}


def scrub_report(path: Path, out: Path, *, packed: bool = False) -> None:
    """Export the report (by nsys), then clean the export."""
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        scrub_export(export_report(path, Path(folder)), out, packed=packed)


def scrub_export(path: Path, out: Path, *, packed: bool = False) -> None:
    """Write the cleaned export to `out`, which must not exist. Raises UsageError for what cannot be read.

    `packed` has no meaning here: SQLite files are read where they lie.
    """
    database = Database(path)
    try:
        with closing(sqlite3.connect(f"file:{quote(str(out.absolute()))}", uri=True, isolation_level=None)) as target:
            _Copy(database, target).write()
    except sqlite3.Error as error:
        reason = str(error).split(" - ")[0].splitlines()[0]
        raise UsageError(f"{path}: cannot be copied ({reason}); export it again with nsys export -t sqlite") from error
    finally:
        database.close()


class _Copy:
    """One database on its way into another, which has the old one attached as `old`."""

    def __init__(self, database: Database, target: sqlite3.Connection) -> None:
        self._database, self._target = database, target
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("ATTACH ? AS old", (f"file:{quote(str(database.path.absolute()))}?mode=ro&immutable=1",))

    def write(self) -> None:
        """All tables that may stay."""
        self._target.execute("BEGIN")
        for table, columns in NUMBERS.items():
            self._numbers(table, columns.split())
        self._ranges()
        self._strings()
        self._numberings()
        self._about()
        self._target.execute("COMMIT")
        self._target.execute("DETACH old")
        self._target.execute("VACUUM")

    def _numbers(self, table: str, allowed: Sequence[str]) -> None:
        columns = [name for name in allowed if name in self._database.columns(table)]
        if columns:
            self._create(table, columns)
            shown = ", ".join(_NUMBER.format(f'"{name}"') for name in columns)
            self._target.execute(f'INSERT INTO main."{table}" SELECT {shown} FROM {self._old(table)}')

    def _ranges(self) -> None:
        """Ranges and names of domains: other NVTX rows name threads, and carry payloads."""
        table, present = "NVTX_EVENTS", self._database.columns("NVTX_EVENTS")
        columns = [name for name in RANGES.split() if name in present]
        if not columns:
            return
        self._create(table, columns, ["text"] if "text" in present else [])
        shown = [_NUMBER.format(f'"{name}"') for name in columns]
        shown += ["CASE WHEN typeof(text) = 'text' THEN text END"] if "text" in present else []
        wanted = ", ".join(str(number) for number in kept_types(self._database))
        where = f" WHERE eventType IN ({wanted})" if "eventType" in present else ""
        self._target.execute(f'INSERT INTO main."{table}" SELECT {", ".join(shown)} FROM {self._old(table)}{where}')

    def _strings(self) -> None:
        """The strings that kept rows name: the table also holds paths, and what the program printed."""
        if not {"id", "value"} <= set(self._database.columns("StringIds")):
            return
        used = {table: names.split() for table, names in NAMES.items()} | {"NVTX_EVENTS": ["textId"]}
        asked = [
            f'SELECT "{column}" FROM main."{table}"'
            for table, columns in used.items()
            for column in columns if self._has(table, column)
        ]  # fmt: skip
        self._create("StringIds", ["id"], ["value"])
        if asked:
            self._target.execute(
                f"INSERT INTO main.StringIds SELECT id, value FROM {self._old('StringIds')}"
                f" WHERE typeof(id) = 'integer' AND typeof(value) = 'text' AND id IN ({' UNION '.join(asked)})"
            )

    def _numberings(self) -> None:
        """What the file's own numbers mean, in our words."""
        memories, copies = memory_kinds(self._database), copy_kinds(self._database)
        self._rows("ENUM_CUDA_MEM_KIND", "id", ["name", "label"], (
            (number, f"CUDA_MEMOPR_MEMORY_KIND_{kind.upper()}", kind) for number, kind in memories.items()
        ))  # fmt: skip
        self._rows("ENUM_CUDA_MEMCPY_OPER", "id", ["name", "label"], (
            (number, f"CUDA_MEMCPY_KIND_{_operation(kind)}", kind) for number, kind in copies.items()
        ))  # fmt: skip
        types = event_types(self._database)
        if types:
            self._rows("ENUM_NSYS_EVENT_TYPE", "id", ["name"], ((number, name) for name, number in types.items()))

    def _about(self) -> None:
        """Versions, the graphs' mode, the GPUs, and what the profiler says it lost."""
        told, found = facts(self._database), environment(self._database)
        rows: dict[str, list[tuple[object, ...]]] = {"META_DATA_EXPORT": [], "META_DATA_CAPTURE": []}
        for fact, (table, name) in _VERSIONS.items():
            if told[fact] is not None:
                rows[table].append((name, told[fact]))
        for table, pairs in rows.items():
            self._rows(table, None, ["name", "value"], pairs)
        gpus = [(number, found["gpu_name"], found["gpu_memory_bytes"]) for number in range(int(found["gpu_count"] or 0))
                ] if found else []  # fmt: skip
        self._create("TARGET_INFO_GPU", ["id"], ["name"], ["totalMemory"])
        self._target.executemany("INSERT INTO main.TARGET_INFO_GPU VALUES (?, ?, ?)", gpus)
        self._rows("DIAGNOSTIC_EVENT", "severity", ["text"], lost_events(self._database))

    def _rows(
        self, table: str, number: str | None, texts: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        self._create(table, [number] if number else [], texts)
        marks = ", ".join("?" * (len(texts) + bool(number)))
        self._target.executemany(f'INSERT INTO main."{table}" VALUES ({marks})', rows)

    def _create(
        self, table: str, numbers: Sequence[str], texts: Sequence[str] = (), more: Sequence[str] = ()
    ) -> None:
        typed = [f'"{name}" INTEGER' for name in numbers] + [f'"{name}" TEXT' for name in texts]
        typed += [f'"{name}" INTEGER' for name in more]
        self._target.execute(f'CREATE TABLE main."{table}" ({", ".join(typed)})')

    def _old(self, table: str) -> str:
        return f"old.{self._database.quoted(table)}"

    def _has(self, table: str, column: str) -> bool:
        return any(row[1] == column for row in self._target.execute(f'PRAGMA main.table_info("{table}")'))


def _operation(kind: str) -> str:
    """unified_h2d → UVM_HTOD, as nsys writes it."""
    prefix = "UVM_" if kind.startswith("unified_") else ""
    short = kind.removeprefix("unified_")
    return prefix + (short.replace("2", "TO") if "2" in short else short).upper()
