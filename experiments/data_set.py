"""A sweep as Parquet data sets: one folder a table with a file for each launch, and one table of all points.

    tables/steps/<slug>--<id>.parquet     the same bytes as the point's own (a hard link where the disk has them)
    summary.parquet                       a row a launch: what was chosen, how it ended, its figures

So `pandas.read_parquet(sweep / "tables" / "steps")` and `pyarrow.dataset.dataset(...)` read a table of all points that
ended well; `point`, `launch` and `arm` are columns in it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..instrumentation.recording.storage import write_table
from .point import Point
from .store import SweepStore

TABLES = "tables"
SUMMARY = "summary.parquet"
_MAGIC = b"PAR1"


class DataSet:
    """The tables of one sweep, kept in step with its points."""

    def __init__(self, store: SweepStore) -> None:
        self._store = store
        self._root = store.root / TABLES

    def sync(self, beat: Callable[[], None] = lambda: None) -> None:
        """Make the tables what the points say: after a kill between two steps, or where somebody deleted them.

        `beat` is called at every point and file: there may be thousands.
        """
        wanted: dict[Path, Path] = {}
        for point in self._store.done():
            beat()
            wanted |= {self._place(point, source): source for source in self._sources(point)}
        for stray in self._root.glob("*/*.parquet"):
            if stray not in wanted:
                stray.unlink()
        for place, source in wanted.items():
            beat()
            if not _same(place, source):
                self._put(source, place)

    def add(self, point: Point) -> None:
        """`point` has just been stored, measured or failed."""
        if self._store.status(point) == "ok":
            for source in self._sources(point):
                self._put(source, self._place(point, source))

    def write_summary(self) -> Path:
        """The table of all points, from their summaries."""
        rows = [_row(point, self._store.record(point)) for point in self._store.plan.points]
        path = self._store.root / SUMMARY
        write_table(path, _table(rows))
        return path

    def _sources(self, point: Point) -> Iterable[Path]:
        found = (self._store.folder(point) / "recording").glob("*.parquet")
        return sorted(path for path in found if _whole(path))

    def _place(self, point: Point, source: Path) -> Path:
        return self._root / source.stem / f"{point.slug}--{point.key}.parquet"

    def _put(self, source: Path, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        try:
            os.link(source, draft)
        except OSError:  # a disk without hard links
            shutil.copyfile(source, draft)
        draft.replace(place)


def _whole(path: Path) -> bool:
    """Whether the file ends as a Parquet file does: a cut one would make the whole data set unreadable."""
    try:
        with path.open("rb") as file:
            file.seek(-len(_MAGIC), os.SEEK_END)
            return file.read() == _MAGIC
    except OSError:
        return False


def _same(place: Path, source: Path) -> bool:
    """Whether `place` holds what `source` does: the same file, or a copy of its size that is not older."""
    try:
        one, other = place.stat(), source.stat()
    except FileNotFoundError:
        return False
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino) or (
        one.st_nlink == 1 and one.st_size == other.st_size and one.st_mtime_ns >= other.st_mtime_ns
    )


def _row(point: Point, record: Mapping[str, Any] | None) -> dict[str, Any]:
    found: Mapping[str, Any] = record or {}
    return {
        "point": point.id, "launch": point.repeat, "slug": point.slug, "folder": point.folder,
        "status": found.get("status", "missing"), "kind": found.get("kind", ""), "reason": found.get("reason", ""),
        "wall_s": found.get("wall_s"), "device": found.get("device"), "modelled": found.get("modelled"),
        "calibration": found.get("calibration"),
        **{f"p_{path}": value for path, value in point.choice.items()},
        **{name: value for name, value in found.get("metrics", {}).items()},
    }  # fmt: skip


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Columns in order of first appearance; one whose values have no type in common becomes text."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        return pa.array([None if value is None else float(value) for value in values])
    if len(kinds) <= 1 and not kinds & {list, dict, tuple}:
        return pa.array(values) if kinds else pa.nulls(len(values), pa.string())
    texts = (value if value is None or isinstance(value, str) else json.dumps(value) for value in values)
    return pa.array(list(texts), pa.string())
