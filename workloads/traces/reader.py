"""Reading a public serving trace: a file in, columns of usable requests out."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import IO

from ...errors import UsageError
from .formats import FORMATS, TraceFormat, detect
from .replay import ReplayOptions, TraceResult, replay
from .rows import RowSieve

_Numbered = Iterator[tuple[int, Mapping[str, object] | None]]


def read_trace(
    path: str | Path, *, format: str | None = None, limit: int | None = None, options: ReplayOptions | None = None
) -> TraceResult:
    """The usable requests of a trace, sorted by time, as offsets from the first arrival.

    `format` names one of `FORMATS`; None finds it by column names. `limit` takes the first so many usable requests.
    `options` change the replay (speed, jitter, repeats). `.gz` files are read as they are.
    Raises UsageError: no such file, unknown format, nothing usable, or more requests asked for than there are.
    """
    path = Path(path)
    sieve = RowSieve()
    try:
        with _open(path) as file:
            fmt = _fill(sieve, file, path, format)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"trace {path}: {reason}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"trace {path}: no text file ({error.reason} at byte {error.start})") from error
    return replay(path, fmt, sieve, limit, options or ReplayOptions())


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _fill(sieve: RowSieve, file: IO[str], path: Path, asked: str | None) -> TraceFormat:
    """Run all rows of `file` through the sieve; the format that they were read as."""
    first = file.readline()
    file.seek(0)
    container = "jsonl" if first.lstrip().startswith("{") else "csv"
    rows = _json_rows(file) if container == "jsonl" else _csv_rows(file)
    fmt: TraceFormat | None = None
    for line, row in rows:
        if row is None:
            sieve.skip("malformed")
            continue
        if fmt is None:
            fmt = _choose(path, asked, container, row)
        sieve.take(row, fmt.columns, line)
    if fmt is None:
        raise UsageError(f"trace {path}: no readable rows in it")
    return fmt


def _choose(path: Path, asked: str | None, container: str, row: Mapping[str, object]) -> TraceFormat:
    if asked is None:
        found = detect(container, row)
        if found is None:
            names = ", ".join(list(row)[:8])
            raise UsageError(f"trace {path}: unknown columns {names}; known formats are {', '.join(FORMATS)}")
        return found
    if asked not in FORMATS:
        raise UsageError(f"trace {path}: format {asked!r} is unknown; known ones are {', '.join(FORMATS)}")
    fmt = FORMATS[asked]
    missing = fmt.columns.required - set(row)
    if fmt.container != container or missing:
        lacks = f"lacks {', '.join(sorted(missing))}" if missing else f"is {container}, not {fmt.container}"
        raise UsageError(f"trace {path}: it {lacks}, so it is not of format {asked!r}; leave the format out to find it")
    return fmt


def _csv_rows(file: IO[str]) -> _Numbered:
    reader = csv.reader(file)
    header = [name.strip() for name in next(reader, [])]
    for row in reader:
        if row:
            fits = len(row) == len(header)
            yield reader.line_num, dict(zip(header, row, strict=True)) if fits else None


def _json_rows(file: IO[str]) -> _Numbered:
    """Numbers with a fraction become Decimal, so that seconds stay exact."""
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text, parse_float=Decimal)
        except json.JSONDecodeError:
            row = None
        yield line, row if isinstance(row, dict) else None
