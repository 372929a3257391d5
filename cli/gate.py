"""`perf gate`: has this become slower? Two arms side by side, or a new result against stored ones."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .gate_options import (
    AllowNew,
    Base,
    Baseline,
    Calibration,
    CompareAnyway,
    Head,
    Json,
    Junit,
    Launches,
    Markdown,
    Metric,
    MinEffect,
    MustDetect,
    Pairs,
    Raw,
    Spec,
    Steps,
)  # fmt: skip
from .gate_outputs import Output, Outputs, Write
from .options import Device, Param

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..analysis.gate.limits import Limits
    from ..analysis.gate.result import GateResult
    from ..experiments.gate.points import Blocks
    from ..experiments.gate.request import GateRequest

gate = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)


class PlanFormat(str, Enum):
    """What a plan can be written as."""

    TEXT = "text"
    JSON = "json"


Arms = tuple["Sequence[str]", "Sequence[str]"]
Work = tuple["Path | None", "Sequence[str] | None", "str | None"]


@gate.callback()
def judged(
    context: typer.Context,
    base: Base = None,
    head: Head = None,
    baseline: Baseline = None,
    spec: Spec = None,
    param: Param = None,
    device: Device = None,
    metric: Metric = None,
    launches: Launches = 5,
    pairs: Pairs = 6,
    block_steps: Steps = 50,
    min_effect: MinEffect = 0.02,
    must_detect: MustDetect = 0.05,
    calibration: Calibration = None,
    allow_new: AllowNew = False,
    compare_anyway: CompareAnyway = False,
    raw: Raw = None,
    write: Write = None,
    json: Json = None,
    markdown: Markdown = None,
    junit: Junit = None,
) -> int:
    """Has it become slower? Two arms side by side (--base, --head), or a new result against stored ones (--baseline).

    Both arms are resident and take turns, A B B A, launch by launch. A regression (1) was seen on two sets of launches,
    above the floor that `perf gate calibrate` found for this machine. Against stored results the promise is weaker:
    times need ten results of this machine, one is inconclusive (4). Counts (syncs, launches, copies, pageable bytes,
    hazards, padding) are compared exactly.
    What is missing, empty, renamed, failed, not a number or zero never passes (3 or 5).
    """
    if context.invoked_subcommand is not None:
        return 0
    outputs = _outputs(write or (), {"json": json, "markdown": markdown, "junit": junit})
    limits, blocks = _sizes({"launches": launches, "pairs": pairs, "min_effect": min_effect,
                             "must_detect": must_detect}, block_steps)  # fmt: skip
    if baseline:
        if base or spec or param or device or raw:
            raise typer.BadParameter("--baseline goes with --head FILE; --base, --spec, --param, --raw are for arms")
        return _tell(_against_stored(baseline, head or (), (metric or (), allow_new, compare_anyway), limits), outputs)
    request = _request((base or (), head or ()), (spec, param, device), limits, blocks, calibration)
    return _tell(_side_by_side(request, metric or (), allow_new, raw), outputs)


def _outputs(write: Sequence[str], shorthands: Mapping[str, Path | None]) -> Outputs:
    """What to write. Stdout gets the verdict, too, unless Markdown goes to a file or stdout is in use: as plain text on
    a terminal, as Markdown for whoever reads a pipe."""
    import sys

    from .gate_outputs import parse_outputs

    named = [f"{name}={path}" for name, path in shorthands.items() if path is not None]
    outputs = parse_outputs([*write, *named])
    taken = (Output("annotations", None), Output("text", None))
    if any(output.format == "markdown" or output in taken for output in outputs):
        return outputs
    return (*outputs, Output("text" if sys.stdout.isatty() else "markdown", None))


def _against_stored(
    baseline: Sequence[Path], head: Sequence[str], what: tuple[Sequence[str], bool, bool], limits: Limits
) -> GateResult:
    from ..experiments.gate.stored import HistoryRequest, gate_history

    if len(head) != 1:
        raise typer.BadParameter("--baseline needs one --head FILE, the new result")
    metrics, allow_new, compare_anyway = what
    return gate_history(
        HistoryRequest(tuple(baseline), Path(head[0]), tuple(metrics), allow_new, compare_anyway, limits)
    )


def _side_by_side(request: GateRequest, metrics: Sequence[str], allow_new: bool, raw: Path | None) -> GateResult:
    from dataclasses import replace

    from ..experiments.gate.procedure import run_gate

    if not request.arms[1].words and not request.arms[0].words:
        raise typer.BadParameter("give --head ARM (and --base ARM), or --baseline FILE and --head FILE")
    gated = run_gate(replace(request, metrics=tuple(metrics), allow_new=allow_new), _say)
    if raw is not None:
        _write_raw(raw, gated.measured)
    return gated.result


def _sizes(limits: Mapping[str, float], block_steps: int = 50) -> tuple[Limits, Blocks]:
    """The limits (by their fields) and the blocks; what is wrong with either is told together."""
    from ..analysis.gate.limits import Limits
    from ..errors import UsageError
    from ..experiments.gate.points import Blocks

    wrong = []
    made: list[Any] = []
    for make in (lambda: Limits(**limits), lambda: Blocks(block_steps)):  # type: ignore[arg-type]
        try:
            made.append(make())
        except UsageError as error:
            wrong.append(str(error))
    if wrong:
        raise UsageError("; ".join(wrong))
    return made[0], made[1]


def _request(
    arms: Arms, work: Work, limits: Limits, blocks: Blocks, calibration: Path | None,
) -> GateRequest:  # fmt: skip
    from ..experiments.gate.arms import parse_arm
    from ..experiments.gate.request import GateRequest

    spec, params, device = work
    chosen = (*(params or ()), *([] if device is None else [f"device={device}"]))
    both = (parse_arm("base", arms[0]), parse_arm("head", arms[1]))
    return GateRequest(both, spec, chosen, limits=limits, blocks=blocks, calibration=calibration)


def _say(line: str) -> None:
    typer.echo(f"perf: gate: {line}", err=True)


def _write_raw(path: Path, measured: object) -> None:
    from ..experiments.files import write_atomically
    from ..reports.jsonable import to_json

    write_atomically(path, to_json(measured))


def _tell(result: GateResult, outputs: Outputs) -> int:
    """Write the verdict wherever it is wanted, and one line to stderr."""
    import os

    from ..reports.gate.privacy import Privacy, publishable
    from ..reports.gate.words import last_line
    from .gate_outputs import write_outputs

    write_outputs(result, outputs)
    shown = publishable(result, Privacy.of(os.environ, str(Path.home())))
    _say(last_line(shown.suite))
    return result.suite.exit_code


@gate.command("plan")
def plan_(
    sd: Annotated[
        float | None, typer.Option(help="Spread of equal arms between launches, a fraction: 0.01 for 1 %.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the spreads of this calibration in place of --sd.")
    ] = None,
    points: Annotated[int, typer.Option(help="Points of the sweep.")] = 1,
    launches: Launches = 5,
    pairs: Pairs = 6,
    block: Annotated[float, typer.Option(metavar="SECONDS", help="Length of a block.")] = 1.2,
    launch: Annotated[float, typer.Option(metavar="SECONDS", help="Until both arms are ready.")] = 10.0,
    min_effect: MinEffect = 0.02,
    must_detect: MustDetect = 0.05,
    format_: Annotated[PlanFormat, typer.Option("--format", help="How to write it.")] = PlanFormat.TEXT,
) -> int:
    """Say what a paired gate finds on a machine, and how long it takes, before it runs. Give --sd or --calibration."""
    from ..analysis.gate.plan_request import PlanRequest
    from ..experiments.gate.calibrating import planned
    from ..reports.gate.calibration import render_calibration, render_plan
    from ..reports.jsonable import to_json

    limits, _ = _sizes({"launches": launches, "pairs": pairs, "min_effect": min_effect, "must_detect": must_detect})
    if (sd is None) == (calibration is None):
        raise typer.BadParameter("give --sd FRACTION (0.01 for 1 %) or --calibration FILE, one of them")
    as_json = format_ is PlanFormat.JSON
    if calibration is not None:
        spreads = planned(calibration, limits)
        typer.echo(to_json([asdict(one) for one in spreads]) if as_json else render_calibration(spreads), nl=False)
        return 0
    assert sd is not None  # one of the two was given
    asked = PlanRequest(sd, points, block, launch)
    found = asked.plan(limits)
    typer.echo(to_json(asdict(found)) if as_json else render_plan(found, asked.sd, points), nl=False)
    return 0


@gate.command("calibrate")
def calibrate(
    base: Base = None,
    spec: Spec = None,
    param: Param = None,
    device: Device = None,
    launches: Annotated[int, typer.Option(help="Whole launches of both arms, at least 20.")] = 20,
    pairs: Pairs = 6,
    block_steps: Steps = 50,
    calibration: Calibration = None,
    raw: Raw = None,
) -> int:
    """Measure equal arms side by side: how much they differ between launches on this machine is the gate's floor.

    It holds for this machine (GPU, driver, torch, Python, ...), these points and blocks, for 30 days.
    """
    from ..experiments.gate.calibrating import run_calibration
    from ..reports.gate.calibration import render_calibration

    limits, blocks = _sizes({"calibration_launches": launches, "pairs": pairs}, block_steps)
    words = base or ()
    request = _request((words, words), (spec, param, device), limits, blocks, calibration)
    found = run_calibration(request, _say)
    if raw is not None:
        _write_raw(raw, found.launches)
    typer.echo(render_calibration(found.spreads), nl=False)
    _say(f"stored in {found.book.path}")
    return 0
