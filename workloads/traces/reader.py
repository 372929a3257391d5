"""Reading a public serving trace: a file in, columns of usable requests out."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import zlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import IO

from ...errors import UsageError
from .formats import FORMATS, TraceFormat, detect
from .replay import ReplayOptions, TraceResult, replay
from .rows import RowSieve

_Numbered = Iterator[tuple[int, Mapping[str, object] | None]]
_GZIP_MAGIC = b"\x1f\x8b"
_JSON_SUFFIXES = {".jsonl", ".json", ".ndjson"}
_PEEK = 64
"""Rows whose names tell the format: one of them may lack a field."""

_KNOWN = frozenset(name for fmt in FORMATS.values() for name in fmt.columns.required)


def read_trace(
    path: str | Path, *, format: str | None = None, limit: int | None = None, options: ReplayOptions | None = None
) -> TraceResult:
    """The usable requests of a trace, sorted by time, as offsets from the first arrival.

    `format` names one of `FORMATS`; None finds it by column names. `limit` takes the first so many usable requests.
    `options` change the replay (speed, jitter, repeats). Gzip files are read as they are.
    Raises UsageError: no such file, unknown format, nothing usable, or more requests asked for than there are.
    """
    path = Path(path)
    sieve = RowSieve()
    try:
        with _open(path) as file:
            fmt = _fill(sieve, file, path, format)
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"trace {path}: {reason}; give a file of a trace") from error
    except UnicodeDecodeError as error:
        where = f"{error.reason} at byte {error.start}"
        raise UsageError(f"trace {path}: no text file ({where}); give CSV or JSON lines") from error
    return replay(path, fmt, sieve, limit, options or ReplayOptions())


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP_MAGIC
    if packed:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _fill(sieve: RowSieve, file: IO[str], path: Path, asked: str | None) -> TraceFormat:
    """Run all rows of `file` through the sieve; the format that they were read as."""
    container = _container(file, path)
    rows = _json_rows(file) if container == "jsonl" else _csv_rows(file, path)
    head = list(_until_rows(rows, _PEEK))
    names = dict.fromkeys(name for _, row in head if row for name in row)
    if not names:
        raise UsageError(f"trace {path}: no readable rows in it; give a CSV with a header, or JSON lines")
    fmt = _choose(path, asked, container, list(names))
    for line, row in itertools.chain(head, rows):
        if row is None:
            sieve.skip("malformed")
        else:
            sieve.take(row, fmt.columns, line)
    return fmt


def _container(file: IO[str], path: Path) -> str:
    """`jsonl` by the name of the file, or where its first line with anything in it opens an object; else `csv`."""
    names = [suffix for suffix in path.suffixes if suffix != ".gz"]
    first = next((line for line in file if line.strip()), "")
    file.seek(0)
    return "jsonl" if first.lstrip().startswith("{") or (names and names[-1] in _JSON_SUFFIXES) else "csv"


def _until_rows(rows: _Numbered, count: int) -> _Numbered:
    """Rows up to and with the `count`-th readable one."""
    for line, row in rows:
        yield line, row
        count -= row is not None
        if count == 0:
            return


def _choose(path: Path, asked: str | None, container: str, names: list[str]) -> TraceFormat:
    if asked is None:
        found = detect(container, names)
        if found is None:
            told = ", ".join(names[:8])
            raise UsageError(
                f"trace {path}: unknown columns {told}; known formats are {', '.join(FORMATS)};"
                " to write one of your own, name the columns arrived_at (in seconds), num_prefill_tokens and"
                " num_decode_tokens"
            )
        return found
    if asked not in FORMATS:
        raise UsageError(f"trace {path}: format {asked!r} is unknown; known ones are {', '.join(FORMATS)}")
    fmt = FORMATS[asked]
    missing = fmt.columns.required - set(names)
    if fmt.container != container or missing:
        lacks = f"lacks {', '.join(sorted(missing))}" if missing else f"is {container}, not {fmt.container}"
        raise UsageError(f"trace {path}: it {lacks}, so it is not of format {asked!r}; leave the format out to find it")
    return fmt


def _csv_rows(file: IO[str], path: Path) -> _Numbered:
    reader = csv.reader(file)
    header: list[str] | None = None
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        if header is None:
            header = [name.strip() for name in row]
            twice = sorted(name for name in _KNOWN if header.count(name) > 1)
            if twice:
                raise UsageError(f"trace {path}: column {twice[0]} stands twice in its header; rename or drop one")
            continue
        yield reader.line_num, dict(zip(header, row, strict=True)) if len(row) == len(header) else None


def _json_rows(file: IO[str]) -> _Numbered:
    """Numbers with a fraction become Decimal, so that seconds stay exact."""
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text, parse_float=Decimal)
        except (ValueError, RecursionError):  # no JSON, or an integer of more digits than Python reads
            row = None
        yield line, row if isinstance(row, dict) else None
