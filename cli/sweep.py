"""`perf sweep`: many points, one folder, one report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from . import sweep_options as its
from .options import Device, Out, Param

if TYPE_CHECKING:
    from ..experiments.driver import SweepOptions
    from ..experiments.launchers.wiring import LaunchOptions
    from ..experiments.observer import SweepObserver
    from ..experiments.store import SweepStore


def sweep(
    specs: its.Specs = None,
    param: Param = None,
    zipped: its.Zip = None,
    case: its.Case = None,
    device: Device = None,
    out: Out = None,
    resume: its.Resume = False,
    allow_mixed: its.AllowMixed = False,
    dry_run: its.DryRun = False,
    timeout: its.Timeout = None,
    skip_dominated: its.SkipDominated = False,
    max_failures: its.MaxFailures = None,
    fail_fast: its.FailFast = False,
    progress: its.Progress = "auto",
    launcher: its.Launcher = "local",
    workers: its.Workers = None,
    address: its.Address = None,
) -> int:
    """Run every point of one or more specs and report them together.

    Points are measured in a process of their own, which is kept while nothing breaks: a point that fails is recorded
    with its reason, and the sweep goes on. What was measured stays whatever is killed; --resume measures the rest.

    Each GPU measures one point at a time, for a worker of its own. --launcher ray takes whole GPUs of a Ray cluster
    that is there already (pip install 'stepscope[ray]'): a point whose node is lost runs on another one, and no point
    is repeated for any other reason. Points on the devices sim and cpu run one at a time here, unless --workers says
    otherwise: they measure the processor that they would share. docs/scale.md has the arithmetic.

    The bundled spec: decode-heavy with 8, 64 and 256 rows, block tables 512 and 8192 wide, the regimes steady, chunked
    and churn, commit orders first, last and (on steady) skip, without and with CUDA graphs.
    """
    from ..experiments import sweep as experiment
    from ..experiments.driver import stop_rules
    from ..experiments.launchers.wiring import LaunchOptions
    from .sweep_progress import watch_sweep

    parameters = [*(param or []), *([f"device={device}"] if device else [])]
    launch = LaunchOptions(launcher, workers, address).checked()
    request = experiment.Request(specs or [], parameters, zipped or [], case or [], launch.elsewhere)
    observer = watch_sweep(progress)
    options = stop_rules(
        max_failures=1 if fail_fast else max_failures, skip_dominated=skip_dominated, timeout_s=timeout,
        allow_mixed=allow_mixed, elsewhere=launch.elsewhere,
    )  # fmt: skip
    if dry_run:
        typer.echo(experiment.preview(request, out, resume=resume, workers=workers or 1))
        return 0
    return _measure(experiment.open_sweep(request, out, resume=resume), observer, launch, options)


def _measure(store: SweepStore, observer: SweepObserver, launch: LaunchOptions, options: SweepOptions) -> int:
    """Run it and report it; what it ends with."""
    from ..experiments import sweep as experiment
    from ..experiments.launchers.wiring import make_launcher

    try:
        outcome = experiment.run_sweep(store, observer, make_launcher(launch, store.plan.points), options)
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
