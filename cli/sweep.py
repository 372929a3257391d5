"""`perf sweep`: many points, one folder, one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Device, Out, Param

Progress = Annotated[
    str, typer.Option("--progress", metavar="HOW", help="auto, bar, plain or json: one JSON object a line on stderr.")
]


def sweep(
    specs: Annotated[
        list[Path] | None, typer.Argument(metavar="[SPEC ...]", help="Spec files, YAML or TOML; none: a bundled one.")
    ] = None,
    param: Param = None,
    zipped: Annotated[
        list[str] | None,
        typer.Option("--zip", metavar="KEY,KEY=V/V[,V/V ...]", help="Parameters that change side by side."),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case", metavar="NAME=REQS", help="A batch as vllm bench forward writes it: decode=32*1@8192."
        ),
    ] = None,
    device: Device = None,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Measure what is missing or failed in --out.")] = False,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Go on though the engine or the machine is another one.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the points and how long they will take; measure nothing.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", help="Give a point up then. [default: never]"),
    ] = None,
    skip_dominated: Annotated[
        bool, typer.Option("--skip-dominated", help="Leave out what is larger than a point that ran out of memory.")
    ] = False,
    max_failures: Annotated[
        int | None, typer.Option("--max-failures", metavar="N", help="Stop after so many failed points.")
    ] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop after the first failed point.")] = False,
    progress: Progress = "auto",
) -> int:
    """Run every point of one or more specs and report them together.

    Points are measured in a process of their own, which is kept while nothing breaks: a point that fails is recorded
    with its reason, and the sweep goes on. What was measured stays whatever is killed; --resume measures the rest.

    The bundled spec: decode-heavy with 8, 64 and 256 rows, block tables 512 and 8192 wide, the regimes steady, chunked
    and churn, commit orders first, last and (on steady) skip, without and with CUDA graphs.
    """
    from ..experiments import sweep as experiment
    from ..experiments.driver import stop_rules
    from .sweep_progress import watch_sweep

    parameters = [*(param or []), *([f"device={device}"] if device else [])]
    request = experiment.Request(specs or [], parameters, zipped or [], case or [])
    observer = watch_sweep(progress)
    options = stop_rules(
        max_failures=1 if fail_fast else max_failures, skip_dominated=skip_dominated, timeout_s=timeout,
        allow_mixed=allow_mixed,
    )  # fmt: skip
    if dry_run:
        typer.echo(experiment.preview(request, out, resume=resume))
        return 0
    store = experiment.open_sweep(request, out, resume=resume)
    try:
        outcome = experiment.run_sweep(store, observer, options=options)
        typer.echo(experiment.report_sweep(store))
        interrupted = outcome.interrupted
    except KeyboardInterrupt:  # a second Ctrl-C, or one while the report is made
        interrupted = True
    if interrupted:
        typer.echo(f"perf: {experiment.interruption(store)}", err=True)
        return 130
    if outcome.stopped:
        typer.echo(f"perf: {outcome.stopped}; {experiment.kept(store)}", err=True)
    return outcome.exit_code
