"""`perf report`'s work: find out what a path holds, and write its page. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..analysis.captures.selection import ALL, Selection
from ..errors import StepscopeError, UsageError
from ..instrumentation.recording.reader import Recording
from ..instrumentation.recording.schema import CAPTURE_SOURCES
from ..instrumentation.recording.storage import META_FILE, PARTIAL_META_FILE
from ..instrumentation.sources.reading import holds_traces, is_capture, read_capture, what_instead
from ..reports import Format, IndexEntry, render, render_index, render_sweep
from ..reports.perfetto import perfetto_json
from .files import write_atomically
from .importing import report_of_capture, report_of_part
from .store import SweepStore
from .summary import figures_of
from .sweep_view import sweep_view

RECORDING = "recording"
"""Where a run, and a point of a sweep, keeps its recording."""
_OWN_FILES = (META_FILE, PARTIAL_META_FILE, "plan.json", "summary.json")


def write_report(
    path: Path, format_: Format | Literal["perfetto"], output: Path | None, part: Selection = ALL
) -> str:
    """Render what `path` holds; of a capture, or the recording that it became, `part`. Returns what belongs on stdout:
    the text, or where the file is.

    HTML goes to `output`, else to report.html in the folder; the others go to `output`, else to stdout.
    Raises UsageError for a path that holds nothing of ours, and for a part of what is no capture.
    """
    if format_ == "perfetto":
        if part:
            raise UsageError(f"{_options(part)}: a trace for Perfetto has a track for each; drop it")
        return _written(perfetto_json(recording_at(path)), format_, output, path)
    if _is_capture(path):
        page = path / "report.html" if path.is_dir() else path.with_name(f"{path.name}.html")
        return _written(report_of_capture(path, format_, part), format_, output, page)
    folder = _folder(path)
    if part:
        return _written(_part(path, part, format_), format_, output, folder / "report.html")
    return _written(_render(folder, format_, output), format_, output, folder / "report.html")


def recording_at(path: Path) -> Recording:
    """The one recording that `path` holds: a capture becomes one. Raises UsageError for none, or for many."""
    if _is_capture(path):
        return read_capture(path).recording()
    folder = _folder(path)
    for below in (folder, folder / RECORDING):
        if _is_recording(below):
            return Recording.load(below)
    many = "a sweep has a recording a point, give one of them" if (folder / "plan.json").exists() else "give its folder"
    raise UsageError(f"{folder}: holds no recording ({META_FILE}) of its own; {many}")


def _options(part: Selection) -> str:
    return ", ".join(f"--{text}" for text in str(part).split(", "))


def _part(path: Path, part: Selection, format_: Format) -> str:
    recording, folder = recording_at(path), _folder(path)
    if recording.meta.source not in CAPTURE_SOURCES:
        raise UsageError(f"{path}: {_options(part)}: chooses in a capture of another profiler, and this is none")
    return report_of_part(recording.tables, recording.meta, format_, folder.absolute().name, part)


def _written(text: str, format_: str, output: Path | None, page: Path) -> str:
    """Write `text` where it belongs; what belongs on stdout comes back."""
    target = output or (page if format_ == "html" else None)
    if target is None:
        return text if text.endswith("\n") else text + "\n"
    write_page(target, text)
    return f"{target}\n"


def write_page(target: Path, text: str) -> None:
    """Write a page, atomically. Raises UsageError where it cannot be written."""
    try:
        write_atomically(target, text)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror}); choose another file with -o") from error


def _is_capture(path: Path) -> bool:
    """Files of ours are JSON too, which is what a Kineto trace is known by: their names come first. A folder with
    traces and nothing of ours holds the ranks of one run."""
    if path.is_dir():
        ours = (path / "plan.json").exists() or _is_recording(path) or _recordings(path)
        return not ours and holds_traces(path)
    return path.name not in _OWN_FILES and is_capture(path)


def _recordings(folder: Path) -> list[Path]:
    """What lies below the folder: recordings, and runs."""
    return sorted(below for below in folder.iterdir() if _is_recording(below) or _is_recording(below / RECORDING))


def _folder(path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder; give a recording, or the folder of a run or a sweep")
    if path.is_dir():
        return path
    if path.name in _OWN_FILES:
        return path.absolute().parent
    if instead := what_instead(path):
        raise UsageError(f"{path}: {instead}")
    raise UsageError(
        f"{path}: is no recording and no capture; give the folder that holds {META_FILE} or plan.json, an nsys export "
        "or a Kineto trace"
    )


def _render(folder: Path, format_: Format, output: Path | None) -> str:
    if (folder / "plan.json").exists():
        return render_sweep(sweep_view(SweepStore.open(folder)), format_)
    if _is_recording(folder):
        return _page(Recording.load(folder), format_, folder.absolute().name)
    if _is_recording(folder / RECORDING):
        return _page(Recording.load(folder / RECORDING), format_, folder.absolute().name)
    found = _recordings(folder)
    if not found:
        raise UsageError(
            f"{folder}: holds no recording ({META_FILE}), no sweep (plan.json), no folder of recordings and no traces "
            "(*.json, *.json.gz); give the folder of a run, or a capture's file"
        )
    entries = [_entry(below, (output or folder / "report.html").parent, format_) for below in found]
    return render_index(entries, format_, name=folder.absolute().name)


def _page(recording: Recording, format_: Format, name: str) -> str:
    """A recording's page; one that was imported has a capture's."""
    if recording.meta.source in CAPTURE_SOURCES:
        return report_of_part(recording.tables, recording.meta, format_, name)
    return render(recording, format_, name=name)


def _is_recording(folder: Path) -> bool:
    return (folder / META_FILE).exists() or (folder / PARTIAL_META_FILE).exists()


def _entry(folder: Path, pages: Path, format_: Format) -> IndexEntry:
    """One recording of a folder: its page is written beside the index. A broken one has its error there instead."""
    try:
        recording = Recording.load(folder if _is_recording(folder) else folder / RECORDING)
        href = ""
        if format_ == "html":
            href = f"{folder.name}.html"
            write_page(pages / href, _page(recording, "html", folder.name))
        metrics, reasons = figures_of(recording)
    except StepscopeError as error:
        return IndexEntry(folder.name, error=str(error))
    meta = recording.meta
    return IndexEntry(folder.name, href, meta.source, meta.created, meta.calibration or "", metrics, reasons)
