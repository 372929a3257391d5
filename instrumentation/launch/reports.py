"""What nsys left behind: the reports of a run, or what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from ...errors import MeasurementError
from .running import Ended


def reports_of(out: Path, *, windows: int, ended: Ended, can_finish: bool) -> tuple[Path, ...]:
    """The report of each window, in order. `out` is what --output was given, without an ending.

    A stream that no report was made of (.qdstrm) counts as one where there is an importer to finish it (`can_finish`).
    Raises MeasurementError (exit 3) for no report, for a lone stream, and for fewer reports than windows.
    """
    found = _numbered(out, ".nsys-rep")
    streams = [] if found else _numbered(out, ".qdstrm")
    if streams and not can_finish:
        raise MeasurementError(
            f"{streams[0]}: incomplete capture: nsys was ended before it made a report of it, and no QdstrmImporter "
            "was found; capture again and let the workers end before the profiler"
        )
    found = found or streams
    if not found:
        raise MeasurementError(
            f"{out}.nsys-rep: nsys wrote no report (it ended with exit code {ended.code}); run the command alone first"
        )
    if len(found) < windows and not ended.interrupted:
        raise MeasurementError(
            f"{found[-1]}: {len(found)} of {windows} windows were captured; the program opened no more: "
            "give --windows as many as it opens"
        )
    return tuple(found)


def _numbered(out: Path, ending: str) -> list[Path]:
    """out.ENDING, then out.1.ENDING, out.2.ENDING ... as --capture-range-end=repeat names them."""
    alone = out.with_name(out.name + ending)
    found: dict[int, Path] = {0: alone} if alone.exists() else {}
    for path in out.parent.glob(f"*{ending}"):
        number = path.name.removeprefix(f"{out.name}.").removesuffix(ending)
        if path.name.startswith(f"{out.name}.") and number.isdecimal():
            found[int(number)] = path
    return [found[number] for number in sorted(found)]
