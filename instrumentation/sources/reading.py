"""What kind of capture a file is, told from its first bytes, and the reader for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NoReturn

from ...errors import UsageError
from .capture import Capture, CaptureOptions, capture_of
from .kineto.trace_file import read_trace
from .nsys.export import read_export
from .nsys.report_file import read_report
from .packed import how_to_unpack
from .trace import Note, Trace

_SQLITE = b"SQLite format 3\x00"
_GZIP = b"\x1f\x8b"
_LFS = b"version https://git-lfs"
_BLANK = b"\xef\xbb\xbf \t\r\n"
_HEAD_BYTES = 512
_SMALL_BYTES = 1 << 20
_TRACE_NAMES = ("*.json", "*.json.gz", "*.json.tmp")
_NSYS_NAMES = ("*.sqlite", "*.nsys-rep", "*.qdrep")


def read_capture(path: Path | Sequence[Path], options: CaptureOptions | None = None) -> Capture:
    """A capture, or several Kineto traces that are the ranks of one run; a folder stands for the traces in it.

    Raises UsageError for what is no capture, MeasurementError (exit 3) for a capture in which nothing was measured.
    """
    options = options or CaptureOptions()
    paths = [path] if isinstance(path, Path) else list(path)
    files = [file for entry in paths for file in _files(entry)]
    _check_once(files)
    trace = _read(files, options)
    others = _other_captures(paths)
    return capture_of(replace(trace, notes=(*trace.notes, *others)), options)


def _other_captures(paths: Sequence[Path]) -> tuple[Note, ...]:
    """What lies beside the traces of a folder and was not read: captures of Nsight Systems are never ranks of them."""
    others = sorted(
        file for folder in paths if folder.is_dir() for pattern in _NSYS_NAMES for file in folder.glob(pattern)
        if _kind(file) in ("nsys", "report")
    )  # fmt: skip
    if not others:
        return ()
    named = others[0].name + (f" and {len(others) - 1} more" if len(others) > 1 else "")
    return (Note("spans", "start_ns", f"the folder also holds captures of Nsight Systems, not read: {named}"),)


def _check_once(files: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for file in files:
        if (real := file.resolve()) in seen:
            raise UsageError(f"{file}: is given twice, and all its work would count twice; name each rank's file once")
        seen.add(real)


def is_capture(path: Path) -> bool:
    """Whether the file looks like a capture of another profiler."""
    return path.is_file() and _kind(path) is not None


def holds_traces(folder: Path) -> bool:
    """Whether Kineto traces lie in the folder, which `read_capture` takes as the ranks of one run."""
    return any(_may_be_trace(file) for pattern in _TRACE_NAMES for file in folder.glob(pattern))


def capture_kind(path: Path) -> Literal["nsys", "report", "kineto"]:
    """What kind of capture the file is. Raises UsageError, with what it is instead, for one that is none."""
    if not path.exists():
        raise UsageError(f"{path}: no such file; give an nsys export (.sqlite), a report (.nsys-rep) or a Kineto trace")
    return _kind(path) or _refuse(path)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"{path}: no such file; give an nsys export (.sqlite), a report (.nsys-rep) or a Kineto trace")
    if not path.is_dir():
        return [path]
    found = sorted({file for pattern in _TRACE_NAMES for file in path.glob(pattern) if _may_be_trace(file)})
    if not found:
        raise UsageError(f"{path}: a folder without Kineto traces (*.json, *.json.gz); give the file of the capture")
    return found


def _may_be_trace(file: Path) -> bool:
    """Engines write settings beside their traces (SGLang's server_args.json): small files without a list of events."""
    if _kind(file) != "kineto":
        return False
    small = file.stat().st_size <= _SMALL_BYTES and file.suffix != ".gz"
    return not small or b'"traceEvents"' in (content := file.read_bytes()) or content.lstrip(_BLANK)[:1] == b"["


def _read(files: Sequence[Path], options: CaptureOptions) -> Trace:
    kinds = [_kind(file) or _refuse(file) for file in files]
    if set(kinds) == {"kineto"}:
        return read_trace(files, salvage=options.salvage)
    if len(files) > 1:
        raise UsageError(f"{files[1]}: several files are read together only as Kineto traces; import one by one")
    if kinds[0] == "nsys":
        return read_export(files[0])
    return read_report(files[0])


def _kind(path: Path) -> Literal["nsys", "report", "kineto"] | None:
    """nsys, report or kineto; None for anything else."""
    head = _head(path)
    if head.startswith(_SQLITE):
        return "nsys"
    if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm") and not head.startswith(_LFS):
        return "report"
    if head.lstrip(_BLANK)[:1] in (b"{", b"[") or (head.startswith(_GZIP) and how_to_unpack(path) is None):
        return "kineto"
    return None


def what_instead(path: Path) -> str | None:
    """What a file is that is no capture as it lies there, and the mend; None for nothing known."""
    head = _head(path)
    if head.startswith(_LFS):
        return "a pointer of Git LFS, not the file itself; fetch it with: git lfs pull"
    return how_to_unpack(path) if head else "the file is empty; capture or copy it again"


def _refuse(path: Path) -> NoReturn:
    if instead := what_instead(path):
        raise UsageError(f"{path}: {instead}")
    raise UsageError(
        f"{path}: not an nsys SQLite export (no SQLite header) and no PyTorch profiler trace (no JSON); "
        "give a .sqlite, .nsys-rep, .json or .json.gz"
    )


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check its path and permissions") from error
