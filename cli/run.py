"""`perf run`: one point, with the timeline of a step."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Device, Force, Out, Param


def run(
    spec: Annotated[Path | None, typer.Argument(metavar="[SPEC]", help="A spec of one point.")] = None,
    regime: Annotated[str | None, typer.Option(metavar="SLUG", help="A named regime of requests.")] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Replay a public serving trace.")] = None,
    limit: Annotated[int | None, typer.Option(help="Requests taken from the head of the trace.")] = None,
    speed: Annotated[float | None, typer.Option(help="Arrivals come this many times faster.")] = None,
    check: Annotated[str | None, typer.Option(metavar="MODE", help="Invariants: off, sample, every.")] = None,
    steps: Annotated[int | None, typer.Option(help="Measured steps. [default: until all are answered]")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the workload.")] = None,
    cost_model: Annotated[str | None, typer.Option(metavar="SHAPE", help="Calibrated shape for sim.")] = None,
    profiler_window: Annotated[
        bool, typer.Option("--profiler-window", help="Open a cudaProfilerApi window for a profiler around the steps.")
    ] = False,
    param: Param = None,
    device: Device = None,
    out: Out = None,
    force: Force = False,
) -> int:
    """Run one point to its end, write its recording and report, and print the summary.

    Requests come from a spec, a regime or a trace; without any of them the regime `steady` runs.
    """
    from ..experiments import single
    from ..instrumentation.launch.torch_profiler import profiler_window as profiler_windows
    from .progress import RunProgress

    fields: dict[str, Any] = {
        "regime": regime, "file": str(trace) if trace else None, "limit": limit, "speed": speed, "check": check,
        "steps": steps, "seed": seed, "cost_model": cost_model, "device": device,
    }  # fmt: skip
    plan = single.plan_single(spec, {name: value for name, value in fields.items() if value is not None}, param or [])
    with RunProgress() as progress:
        around = profiler_windows if profiler_window else nullcontext
        outcome = single.run_single(plan, out, progress, around, force=force)
    typer.echo(outcome.text)
    return outcome.exit_code
