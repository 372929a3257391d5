"""`perf import`'s work: a capture that another profiler made becomes a recording. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..analysis.captures.figures import capture_figures
from ..analysis.captures.rows import Tables
from ..analysis.captures.selection import ALL, Selection
from ..errors import UsageError
from ..instrumentation.recording.meta import RecordingMeta
from ..instrumentation.recording.storage import META_FILE
from ..instrumentation.sources.capture import CaptureOptions
from ..instrumentation.sources.phase_maps import load_phase_map
from ..instrumentation.sources.reading import read_capture
from ..instrumentation.sources.scrub import scrub_copy
from ..reports import Format, capture_brief, render_capture

_PACKED = (".gz", ".json", ".pt", ".trace", ".sqlite", ".nsys-rep", ".qdrep", ".qdstrm", ".tmp")


@dataclass(frozen=True, slots=True)
class Imported:
    """Where the recording is, and in short what it says."""

    folder: Path
    text: str


def import_capture(
    paths: Sequence[Path], out: Path | None = None, *, salvage: bool = False, phase_map: Path | None = None,
    scrubbed: Path | None = None, force: bool = False,
) -> Imported:  # fmt: skip
    """Read one capture, or the Kineto traces of several ranks, and write the recording to `out`.

    Without `out` a folder named after the (first) file is made in the current folder. With `scrubbed` a cleaned copy
    of the capture is written there first, and the recording is made from the copy: both say the same. Raises
    UsageError for what is no capture, and for a folder that holds a recording unless `force` says to replace it;
    MeasurementError for one in which nothing was measured.
    """
    folder = out or Path(f"{stem(paths[0])}.recording")
    options = CaptureOptions(salvage=salvage, phase_map=load_phase_map(phase_map) if phase_map else None)
    _check(folder, force)
    capture = read_capture(paths if scrubbed is None else [_scrubbed(paths, scrubbed, salvage)], options)
    with ThreadPoolExecutor(1) as writer:  # packing the tables keeps another core busy
        saved = writer.submit(capture.save, folder)
        text = capture_brief(capture_figures(capture.tables, capture.meta), paths[0].name)
        saved.result()
    return Imported(folder, text)


def _scrubbed(paths: Sequence[Path], out: Path, salvage: bool) -> Path:
    if len(paths) > 1:
        raise UsageError(f"--scrub-copy {out}: cleans one capture, {len(paths)} are given; scrub them one by one")
    if salvage:
        raise UsageError(
            f"--scrub-copy {out}: not with --salvage: a clean copy would not tell what the damaged file lost"
        )
    return scrub_copy(paths[0], out)


def report_of_capture(path: Path, format_: Format, part: Selection = ALL) -> str:
    """A capture's report, or that of a part of it, without keeping a recording of it."""
    capture = read_capture(path)
    return report_of_part(capture.tables, capture.meta, format_, path.absolute().name, part)


def report_of_part(tables: Tables, meta: RecordingMeta, format_: Format, name: str, part: Selection = ALL) -> str:
    """The same of tables that are there: a Capture's, or those of the Recording that it became."""
    chosen = part.of(tables) if part else tables
    whole = part.whole(tables) if part.device is not None else None
    called = f"{name}, {part}" if part else name
    return render_capture(capture_figures(chosen, meta, whole), format_, name=called, tables=chosen)


def stem(path: Path) -> str:
    """The file's name without the endings of captures: `worker0.pt.trace.json.gz` → `worker0`."""
    name = path.absolute().name
    while True:
        ending = next((own for own in _PACKED if name.endswith(own) and len(name) > len(own)), None)
        if ending is None:
            return name
        name = name.removesuffix(ending)


def _check(folder: Path, force: bool) -> None:
    """Refuse to write among files that are not a recording's, and over a recording unless `force` says so."""
    if folder.is_file():
        raise UsageError(f"{folder}: is a file; name a folder with -o")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / META_FILE).exists():
        raise UsageError(f"{folder}: is not empty and holds no recording; name another folder with -o")
    if (folder / META_FILE).exists() and not force:
        raise UsageError(f"{folder}: holds a recording already; name another with -o, or replace it with --force")
