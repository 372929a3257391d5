"""`perf capture`'s work: a profiler around our run or any command, then its capture imported, checked and compared."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..analysis.captures.figures import CaptureFigures, capture_figures
from ..analysis.captures.processes import check_processes
from ..errors import Incomparable, MeasurementError, UsageError
from ..instrumentation.launch import NsightOptions, nsight_command, reports_of, run_gently, worker_environment
from ..instrumentation.launch.torch_profiler import probe_ranges, profiled_into
from ..instrumentation.recording.reader import Recording
from ..instrumentation.sources.capture import Capture
from ..instrumentation.sources.nsys.tools import NsysTools, find_tools
from ..instrumentation.sources.reading import read_capture
from ..reports import render_capture
from .diffing import diff_recordings
from .files import make_writable
from .plan import Plan
from .reporting import RECORDING, write_page
from .result_folder import RESULTS
from .result_folder import new_folder as fresh_folder
from .single import run_single

INTERRUPTED = 130
MOST_WORKERS = 4096
RUN = "run"
"""Where our own run keeps what it wrote, inside the folder of the capture."""


@dataclass(frozen=True, slots=True)
class Captured:
    """What to print, and what to end with."""

    text: str
    exit_code: int = 0


def new_folder(out: Path | None) -> Path:
    """The folder of a capture, made. Raises UsageError where it cannot be written to, or holds a capture's run."""
    if out is not None and (out / RUN / "recording").exists():
        raise UsageError(f"{out}: holds a run of an earlier capture; choose another --out")
    return fresh_folder(RESULTS, "capture-") if out is None else make_writable(out)


def own_command(arguments: Sequence[str], folder: Path, options: NsightOptions) -> list[str]:
    """The command line of our own run, as a program of its own: nsys captures programs."""
    window = ["--profiler-window"] if options.capture_range != "none" else []
    return [sys.executable, "-m", __name__.split(".")[0], "run", *arguments, *window, "--out", str(folder / RUN)]


def required_nsys(workers: int = 1) -> tuple[Path, NsysTools]:
    """The nsys that is here, and what else. Raises UsageError without one, or for workers that cannot be."""
    if not 0 <= workers <= MOST_WORKERS:
        raise UsageError(f"--workers {workers}: give the processes that must have kernels, 0 to {MOST_WORKERS}")
    found = find_tools()
    if found.nsys is None:
        raise UsageError(
            "nsys: none was found on the PATH, in the folders of NVIDIA's packages or inside Nsight Compute; install "
            "nsight-systems-cli, or take --profiler torch for a run of ours"
        )
    return found.nsys, found


def capture_nsys(
    command: Sequence[str], folder: Path, options: NsightOptions, *, workers: int = 1
) -> Captured:
    """Run `command` under nsys and import what it captured, a recording and a page a window.

    Raises UsageError without an nsys or for options that cannot work, MeasurementError (exit 3) for a capture in which
    a process that launched kernels has none, or fewer than `workers` processes have any.
    """
    program, found = required_nsys(workers)
    target = folder / "capture"
    ended = run_gently(nsight_command(program, command, target, options), worker_environment(os.environ))
    can_finish = found.importer is not None
    reports = reports_of(target, windows=options.windows, ended=ended, can_finish=can_finish)
    texts = [_imported(report, folder, workers) for report in reports]
    if ended.code and not ended.interrupted:
        texts.append(f"the command ended with exit code {ended.code}; what it did until then was captured")
    if ended.interrupted:
        texts.append("interrupted: the capture covers what ran up to here")
    return Captured("\n".join(texts), INTERRUPTED if ended.interrupted else 0)


def capture_torch(plan: Plan, folder: Path, progress: Callable[[int, int], None]) -> Captured:
    """Run the plan's point under torch.profiler, import the trace and compare it with the run's own recording."""
    trace = folder / "capture.json.gz"
    with probe_ranges():
        outcome = run_single(plan, folder / RUN, progress, lambda: profiled_into(trace))
    return Captured(_imported(trace, folder, workers=0), outcome.exit_code)


def _imported(report: Path, folder: Path, workers: int) -> str:
    """Import one report beside itself; its summary, and the comparison with our run where there was one."""
    capture = read_capture(report)
    name = report.name
    for ending in (".nsys-rep", ".qdstrm", ".json.gz"):
        name = name.removesuffix(ending)
    saved = capture.save(folder / f"{name}.recording")
    figures = capture_figures(capture.tables, capture.meta)
    page = folder / f"{name}.html"
    write_page(page, render_capture(figures, "html", name=report.name, tables=capture.tables))
    _check(figures, str(report), workers)
    parts = [render_capture(figures, "text", name=report.name).rstrip("\n"), *_compared(capture, folder)]
    return "\n".join((*parts, "", f"capture: {report}", f"recording: {saved}", f"report: {page}"))


def _check(figures: CaptureFigures, where: str, workers: int) -> None:
    """Every process that launched kernels has kernels, and there are as many such processes as workers."""
    launched = {own.pid for own in figures.calls if own.kind == "launch" and own.pid is not None}
    check_processes(figures.processes, sorted(launched), where)
    able = [own for own in figures.processes if own.kernels]
    if len(able) < workers:
        pids = ", ".join(str(own.pid) for own in able) or "none"
        raise MeasurementError(
            f"{where}: {len(able)} of {workers} processes have GPU kernels in the capture (pid {pids}); start "
            "workers by spawn, capture with --trace-fork-before-exec=true, and end them before the profiler"
        )


def _compared(capture: Capture, folder: Path) -> list[str]:
    """Our run's own recording against the capture; nothing where another command was captured."""
    if not (folder / RUN / RECORDING).exists():
        return []
    own = Recording.load(folder / RUN / RECORDING)
    try:
        return ["", diff_recordings(own, capture.recording(), "run and capture").text.rstrip("\n")]
    except Incomparable as error:
        return ["", f"The run's own recording cannot be compared with the capture: {error}."]
