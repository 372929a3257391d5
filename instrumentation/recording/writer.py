"""Write a recording while the run goes on: segments first, tables at the end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import UsageError
from ..probe.ledger import Row
from ..probe.segments import SegmentWriter
from .meta import Diagnostic, RecordingMeta
from .reader import Recording
from .rescue import rescue_rows
from .storage import META_FILE, PARTIAL_META_FILE, SEGMENT_FILE, make_folder, write_json


class RecordingWriter:
    """One recording in the making.

    The constructor writes `recording.part.json` and opens the segment file (UsageError if the folder cannot take
    them); `write` and `flush_if_due` never block and never raise; `finish` makes the tables. A kill between the two
    loses what was not flushed, at most about a second of rows: `Recording.load` reads the rest from the segments.
    In a fork of its process `write` takes nothing and `finish` raises UsageError: the files are its parent's.
    """

    def __init__(self, folder: Path | str, meta: RecordingMeta) -> None:
        self._folder = Path(folder)
        self._pid = os.getpid()
        self._meta = meta
        make_folder(self._folder)
        path = self._folder / SEGMENT_FILE
        try:
            self._segments = SegmentWriter(path)  # first: where another process records nothing may be touched
        except OSError as error:
            raise UsageError(f"{path}: cannot write here ({error.strerror}); choose another output folder") from error
        (self._folder / META_FILE).unlink(missing_ok=True)  # an earlier recording in this folder is over now
        try:
            write_json(self._folder / PARTIAL_META_FILE, meta)
        except UsageError:
            self._segments.close()
            raise

    def write(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Take rows by table, as `Ledger.take` gives them; the caller leaves them alone from now on."""
        for table, added in rows.items():
            if added and os.getpid() == self._pid:
                self._segments.add(table, added)

    def flush_if_due(self, now_ns: int) -> None:
        """Hand what has gathered to the disk once a second of the caller's clock. Call it between steps."""
        self._segments.flush_if_due(now_ns)

    @property
    def dropped_rows(self) -> int:
        """Rows that the disk refused, or that came faster than it took them; all of them behind `finish`."""
        return self._segments.dropped_rows

    def finish(self, *notes: Diagnostic) -> Recording:
        """Turn everything written so far into tables, drop the segments, and return the finished Recording."""
        if os.getpid() != self._pid:
            raise UsageError(
                f"{self._folder}: process {self._pid} records here, of which this one is a fork; make a writer with a "
                "folder of its own in each process"
            )
        self._segments.close()
        meta = self._meta.with_diagnostics(*notes)
        rows, meta = rescue_rows(self._folder, meta, dropped_rows=self._segments.dropped_rows)
        recording = Recording.from_ledger(rows, meta)
        recording.save(self._folder)
        for name in (SEGMENT_FILE, PARTIAL_META_FILE):
            (self._folder / name).unlink(missing_ok=True)
        return recording
