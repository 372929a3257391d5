"""`perf capture`: Nsight Systems around our run or any command, or torch.profiler around our run; then the import."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, Out, Param

if TYPE_CHECKING:
    from ..experiments.capturing import Captured
    from ..instrumentation.launch import NsightOptions


class Profiler(str, Enum):
    """Who captures."""

    NSYS = "nsys"
    TORCH = "torch"


class GraphTrace(str, Enum):
    """What nsys keeps of the replay of a CUDA graph."""

    GRAPH = "graph"
    NODE = "node"


class CaptureRange(str, Enum):
    """When nsys collects."""

    NONE = "none"
    CUDA = "cudaProfilerApi"


class RangeEnd(str, Enum):
    """What the end of a window does."""

    STOP = "stop"
    REPEAT = "repeat"


_NSYS_ONLY = (
    "--profiler torch: takes no options of nsys (--graph-trace, --capture-range, --range-end, --windows, --workers);"
    " drop them, or take --profiler nsys"
)


def capture(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- CMD ...]", help="Command to capture. [default: perf run, with the options below]"),
    ] = None,
    profiler: Annotated[Profiler, typer.Option(help="Who captures; torch captures our run only.")] = Profiler.NSYS,
    graph_trace: Annotated[
        GraphTrace, typer.Option("--graph-trace", help="Graph replays as one row each, or kernel by kernel.")
    ] = GraphTrace.GRAPH,
    capture_range: Annotated[
        CaptureRange, typer.Option("--capture-range", help="All of the run, or what cudaProfilerStart opens.")
    ] = CaptureRange.NONE,
    range_end: Annotated[
        RangeEnd | None,
        typer.Option("--range-end", help="After cudaProfilerStop: collect no more, or wait for the next start."),
    ] = None,
    windows: Annotated[int, typer.Option(help="Windows that the program opens; each has a report of its own.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes that must have kernels, or the capture has failed.")] = 1,
    spec: Annotated[Path | None, typer.Option("--spec", metavar="SPEC", help="Our run: a spec of one point.")] = None,
    regime: Annotated[str | None, typer.Option(metavar="SLUG", help="Our run: a named regime of requests.")] = None,
    steps: Annotated[int | None, typer.Option(help="Our run: measured steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Our run: seed of the workload.")] = None,
    param: Param = None,
    device: Device = None,
    out: Out = None,
) -> int:
    """Capture our run or any command with a profiler, import the capture and print what it says.

    A run of ours is compared with its own recording as well. A process whose kernels are missing ends it with 3.
    """
    from ..errors import UsageError
    from ..instrumentation.launch import NsightOptions

    own: dict[str, Any] = {"regime": regime, "steps": steps, "seed": seed, "device": device}
    given = {name: value for name, value in own.items() if value is not None}
    options = NsightOptions(graph_trace.value, capture_range.value, range_end.value if range_end else None, windows)
    options.check()
    if command and (profiler is Profiler.TORCH or spec or given or param):
        raise UsageError("a command behind --: takes no options of our run (--spec, --steps, ...), no --profiler torch")
    if profiler is Profiler.TORCH and (options != NsightOptions() or workers != 1):
        raise UsageError(_NSYS_ONLY)
    # A folder is made when nothing is left that can be wrong with what was asked.
    if profiler is Profiler.TORCH:
        done = _torch(spec, given, param or [], out)
    else:
        arguments = [] if command else _arguments(spec, given, param or [])
        done = _nsys(command or [], arguments, options, workers, out)
    typer.echo(done.text)
    return done.exit_code


def _arguments(spec: Path | None, given: dict[str, Any], params: list[str]) -> list[str]:
    """The same as arguments of `perf run`, checked before anything is started."""
    from ..experiments import single

    single.plan_single(spec, given, params)
    named = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    return [*([str(spec)] if spec else []), *named, *[text for own in params for text in ("--param", own)]]


def _nsys(command: list[str], arguments: list[str], options: NsightOptions, workers: int, out: Path | None) -> Captured:
    """`command`, or without one our own run with `arguments`."""
    from ..experiments import capturing

    capturing.required_nsys(workers)
    folder = capturing.new_folder(out)
    run = command or capturing.own_command(arguments, folder, options)
    return capturing.capture_nsys(run, folder, options, workers=workers)


def _torch(spec: Path | None, given: dict[str, Any], params: list[str], out: Path | None) -> Captured:
    from ..experiments import capturing, single
    from .progress import RunProgress

    plan = single.plan_single(spec, given, params)
    folder = capturing.new_folder(out)
    with RunProgress() as progress:
        return capturing.capture_torch(plan, folder, progress)
