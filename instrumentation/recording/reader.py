"""The Recording in memory: typed meta and one frame a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import UsageError
from ..probe.ledger import Ledger, Row
from .convert import arrow_schema, explain_nulls, frames_from_rows, from_frame, to_frame
from .derive import told_twice
from .meta import ROWS, Diagnostic, RecordingMeta
from .rescue import rescue_rows
from .schema import SWEEP_KEYS, TABLES
from .storage import META_FILE, PARTIAL_META_FILE, make_folder, read_json_object, read_table, write_json, write_table
from .upgrade import RawRecording, check_version, upgrade, upgrade_rows

__all__ = ["Recording"]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What was measured. Everything upstream makes one, everything downstream reads one.

    `tables` has a frame for each name in `schema.TABLES`, empty ones included: the keys, then the schema's columns,
    with nullable types (Int64, Float64, boolean, string), null where nothing was measured.
    """

    meta: RecordingMeta
    tables: Mapping[str, pd.DataFrame]

    def table(self, name: str) -> pd.DataFrame:
        """The frame of one table; a shallow copy, so that a caller's new columns stay the caller's."""
        if name not in self.tables:
            raise UsageError(f"there is no table {name!r}; tables are {', '.join(TABLES)}")
        return self.tables[name].copy(deep=False)

    @classmethod
    def from_ledger(cls, ledger: Ledger | Mapping[str, Sequence[Row]], meta: RecordingMeta) -> Recording:
        """A Recording of a ledger's rows (or of rows by table), which are left where they are.

        Fills the derived columns (`derive.py`) and notes why columns are null. Raises ValueError for a row that does
        not fit the schema.
        """
        rows = ledger.rows if isinstance(ledger, Ledger) else ledger
        twice = told_twice(rows.get("steps", ()))
        if twice:
            why = "step numbers stand twice, as where two probes share a ledger or a writer; these do not count"
            meta = meta.with_diagnostics(Diagnostic("steps", ROWS, f"{len(twice)} {why}"))
        frames = frames_from_rows(rows, meta)
        return cls(explain_nulls(frames, meta), frames)

    @classmethod
    def from_frames(cls, frames: Mapping[str, pd.DataFrame], meta: RecordingMeta) -> Recording:
        """A Recording of finished frames, for importers and sweeps.

        Tables that are absent are empty, columns that are absent are null; a column that the schema does not have is a
        ValueError.
        """
        in_sweep = meta.sweep is not None
        unknown = sorted(set(frames) - set(TABLES))
        if unknown:
            raise ValueError(f"there is no table {unknown[0]!r}")
        given = {name: frames.get(name, pd.DataFrame()) for name in TABLES}
        tables = {name: to_frame(from_frame(name, frame, in_sweep=in_sweep)) for name, frame in given.items()}
        return cls(explain_nulls(tables, meta), tables)

    def save(self, folder: Path | str) -> Path:
        """Write the folder; `recording.json` comes last, so that it stands only beside whole tables."""
        folder = Path(folder)
        make_folder(folder)
        in_sweep = self.meta.sweep is not None
        for name, frame in self.tables.items():
            write_table(folder / f"{name}.parquet", from_frame(name, frame, in_sweep=in_sweep))
        write_json(folder / META_FILE, self.meta)
        return folder

    @classmethod
    def load(cls, path: Path | str) -> Recording:
        """Read a folder (or its recording.json), older versions too.

        A folder whose run was killed has segments instead of tables: what reached the disk is read from them.
        Raises UsageError, one line, for anything that is not a whole recording of a version that we know.
        """
        folder = Path(path)
        if folder.name == META_FILE:
            folder = folder.parent
        meta_path = folder / META_FILE
        if not meta_path.exists() and (folder / PARTIAL_META_FILE).exists():
            return cls._load_killed(folder)
        raw_meta = read_json_object(meta_path)
        check_version(raw_meta, str(meta_path))  # before the tables, which may be unreadable for the same reason
        raw = upgrade(RawRecording(raw_meta, _read_tables(folder)), str(meta_path))
        meta = _typed(raw.meta, meta_path)
        for name in TABLES:
            if name not in raw.tables:
                read_table(folder / f"{name}.parquet")  # raises the error that names the missing file
        return cls(meta, {name: to_frame(_checked(name, raw.tables[name], folder)) for name in TABLES})

    @classmethod
    def _load_killed(cls, folder: Path) -> Recording:
        path = folder / PARTIAL_META_FILE
        raw = read_json_object(path)
        version = check_version(raw, str(path))
        current = upgrade(RawRecording(raw, {}), str(path)).meta
        rows, meta = rescue_rows(folder, _typed(current, path))
        return cls.from_ledger(upgrade_rows(version, rows), meta)


def _typed(raw: Mapping[str, Any], path: Path) -> RecordingMeta:
    try:
        if "created" not in raw:  # its default is the time of writing, which no reader may put in its place
            raise msgspec.ValidationError("Object missing required field `created`")
        return msgspec.convert(dict(raw), RecordingMeta)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; the file was changed by hand or damaged, record again") from error


def _read_tables(folder: Path) -> dict[str, pa.Table]:
    """All Parquet files of the folder by table name; which ones there must be depends on the version."""
    return {path.stem: read_table(path) for path in sorted(folder.glob("*.parquet"))}


def _checked(name: str, table: pa.Table, folder: Path) -> pa.Table:
    """The table in the schema's order and types; sweep keys are optional."""
    where = f"{folder / name}.parquet"
    twice = next((column for column in table.column_names if table.column_names.count(column) > 1), None)
    if twice is not None:
        raise UsageError(f"{where}: column {twice} stands in it twice; the file was changed by hand, record again")
    in_sweep = any(key.name in table.column_names for key in SWEEP_KEYS)
    schema = arrow_schema(name, in_sweep=in_sweep)
    missing = [field.name for field in schema if field.name not in table.column_names]
    if missing:
        raise UsageError(f"{where}: column {missing[0]} is missing; the recording is damaged, record again")
    extra = [column for column in table.column_names if column not in schema.names]
    if extra:
        raise UsageError(f"{where}: column {extra[0]} is unknown in this version; record again")
    try:
        typed = table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"{where}: a column has the wrong type ({error}); record again") from error
    _check_ends(typed, where)
    return typed


def _check_ends(table: pa.Table, where: str) -> None:
    """Refuse rows that end before they start: every figure made of them would be wrong."""
    for start, end in (("start_ns", "end_ns"), ("enqueue_start_ns", "enqueue_end_ns")):
        if {start, end} <= set(table.column_names):
            early = pc.index(pc.less(table[end], table[start]), True).as_py()
            if early >= 0:
                raise UsageError(
                    f"{where}: row {early} has an {end} before its {start}; the file is damaged, copy the recording "
                    "again or record again"
                )

