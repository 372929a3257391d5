"""Nsight Systems reports (.nsys-rep, .qdrep) and unfinished streams (.qdstrm): exported by an nsys, then read."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ....errors import MeasurementError, UsageError
from ..trace import Trace
from .export import read_export
from .tools import NsysTools, find_tools

STREAM_SUFFIX = ".qdstrm"
_TIMEOUT_S = 1800


def read_report(path: Path, tools: NsysTools | None = None) -> Trace:
    """Export the report beside nothing: the SQLite file lives in a temporary folder, and only until it is read.

    Raises UsageError without an nsys, or where it fails; MeasurementError for a stream that nothing can finish.
    """
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        return read_export(export_report(path, Path(folder), tools))


def export_report(path: Path, folder: Path, tools: NsysTools | None = None) -> Path:
    """The report exported as an SQLite file in `folder`. Raises as `read_report` does."""
    found = tools or find_tools()
    report = path if path.suffix != STREAM_SUFFIX else _finished(path, folder, found)
    if found.nsys is None:
        raise UsageError(
            f"{path}: reading a report takes nsys, and none was found; put it on the PATH, or export on a machine "
            f"that has it: nsys export -t sqlite {path.name}"
        )
    export = folder / "report.sqlite"
    command = [str(found.nsys), "export", "--type=sqlite", "--force-overwrite=true", f"--output={export}"]
    _run([*command, str(report)], path)
    if not export.exists():
        raise UsageError(f"{path}: {found.nsys.name} export made no SQLite file; export it by hand and give that")
    return export


def _finished(path: Path, folder: Path, tools: NsysTools) -> Path:
    if tools.importer is None:
        raise MeasurementError(
            f"{path}: incomplete capture: the profiler was killed before it made a report of it, and no QdstrmImporter "
            "was found; capture again and let the workers end before the profiler"
        )
    report = folder / "report.nsys-rep"
    try:
        _run([str(tools.importer), "-i", str(path), "-o", str(report)], path)
    except UsageError as error:
        raise MeasurementError(f"{path}: incomplete capture, its importer failed; capture again ({error})") from error
    if not report.exists():
        raise MeasurementError(f"{path}: incomplete capture: its importer made no report; capture again")
    return report


def _run(command: Sequence[str], path: Path) -> None:
    """Run one of NVIDIA's programs. What it prints may name users and paths of the capture: it is not passed on."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise UsageError(f"{path}: {command[0]} cannot be run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{path}: {command[0]} did not end within {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise UsageError(f"{path}: {Path(command[0]).name} failed with exit code {done.returncode}")
