"""Files of a recording folder: written atomically, read with one-line errors that name the file and the mend."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import UsageError

META_FILE = "recording.json"
PARTIAL_META_FILE = "recording.part.json"
SEGMENT_FILE = "rows.seg"


def make_folder(folder: Path) -> None:
    """Create `folder`; a UsageError when it cannot hold a recording."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot write here ({error.strerror}); choose another output folder")


def write_atomic(path: Path, content: bytes) -> None:
    """The file appears whole or not at all: a temporary file beside it, flushed to the disk, then renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def write_table(path: Path, table: pa.Table) -> None:
    """One Parquet file, atomically."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_atomic(path, buffer.getvalue())


def write_json(path: Path, value: object) -> None:
    """Indented JSON, atomically."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`."""
    try:
        value = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; give a folder that `perf run` or `perf sweep` wrote") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check its path and permissions") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid JSON ({error}); copy the recording again or record again") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path}: holds no JSON object; this is not a recording of stepscope")
    return value


def read_table(path: Path) -> pa.Table:
    """The Parquet table in `path`."""
    try:
        with pq.ParquetFile(path) as file:  # not read_table: its data-set machinery costs more than a small table
            return file.read()
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; the recording is incomplete, copy it again or record again") from error
    except (pa.ArrowInvalid, OSError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"{path}: not a readable Parquet file ({first}); copy the recording again") from error
