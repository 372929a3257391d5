"""`perf sweep`: many points, one folder, one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Device, Out, Param


def sweep(
    specs: Annotated[
        list[Path] | None, typer.Argument(metavar="[SPEC ...]", help="Spec files, YAML or TOML; none: a bundled one.")
    ] = None,
    param: Param = None,
    device: Device = None,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Measure what is missing or failed in --out.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the points and measure nothing.")] = False,
) -> int:
    """Run every point of one or more specs and report them together.

    The bundled spec: decode-heavy with 8, 64 and 256 rows, block tables 512 and 8192 wide, the regimes steady, chunked
    and churn, commit orders first, last and (on steady) skip, without and with CUDA graphs.
    """
    from ..experiments import sweep as experiment
    from .progress import watch_sweep

    parameters = [*(param or []), *([f"device={device}"] if device else [])]
    if dry_run:
        plan = experiment.plan_sweep(specs or [], parameters)
        typer.echo("".join(f"{point.id}  {point.slug}\n" for point in plan.points) + f"{len(plan.points)} points")
        return 0
    store = experiment.open_sweep(specs or [], parameters, out, resume=resume)
    try:
        outcome = experiment.run_sweep(store, watch_sweep())
        typer.echo(experiment.report_sweep(store))
        interrupted = outcome.interrupted
    except KeyboardInterrupt:  # a second Ctrl-C, or one while the report is made
        interrupted = True
    if interrupted:
        typer.echo(f"perf: {experiment.interruption(store)}", err=True)
        return 130
    return outcome.exit_code
