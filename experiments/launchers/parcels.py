"""The files of a point as plain data, for a driver that shares no disk with its workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ...errors import MeasurementError

Files = dict[str, bytes]
"""Contents by path relative to the point's folder, with `/`."""
MAX_BYTES = 1 << 30
"""Of one point. It stands in the memory of the worker, of both nodes' object stores and of the driver at once."""


def read_files(folder: Path, max_bytes: int = MAX_BYTES) -> Files:
    """Every regular file below `folder`. Raises MeasurementError when they are more than `max_bytes` together."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    total = sum(path.stat().st_size for path in paths)
    if total > max_bytes:
        raise MeasurementError(
            f"its files are {total / 2**20:,.0f} MiB, and a worker sends at most {max_bytes / 2**20:,.0f};"
            " measure fewer steps (measure.steps), or run it with --launcher local"
        )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Put `files` below `folder`, which is made. Raises ValueError for a path that leads out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts or not parts.parts:
            raise ValueError(f"{name!r} leads out of the folder of its point")
        path = folder / parts
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
