"""`perf gate`: has this become slower? Against stored results; and what a paired gate would find at what cost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..experiments.gating import HistoryOutcome

gate = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)

MinEffect = Annotated[float, typer.Option(metavar="FRACTION", help="No smaller slowdown is called a regression.")]
MustDetect = Annotated[float, typer.Option(metavar="FRACTION", help="A pass says that the slowdown is smaller.")]


@gate.callback()
def stored(
    context: typer.Context,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE|DIR", help="Stored results, oldest first: JSON, or a sweep's folder. Repeatable."),
    ] = None,
    head: Annotated[Path | None, typer.Option(metavar="FILE|DIR", help="The new result.")] = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Judge this one. Repeatable. [default: times and counts]")
    ] = None,
    min_effect: MinEffect = 0.02,
    must_detect: MustDetect = 0.05,
    allow_new: Annotated[bool, typer.Option("--allow-new", help="Points without a stored result are new.")] = False,
    compare_anyway: Annotated[
        bool, typer.Option("--compare-anyway", help="Compare across machines; the result is marked.")
    ] = False,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown here, not to stdout.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML here, too.")] = None,
) -> int:
    """Judge a new result against stored ones: the weaker gate, for where both versions cannot run side by side.

    Times need ten stored results of this machine: what is slower than their prediction interval and by the least effect
    fails (1). With fewer, a single one above all, it is inconclusive (4). Counts are compared exactly with the newest.
    What is missing, empty, renamed, failed, not a number or zero never passes (3 or 5).
    """
    if context.invoked_subcommand is not None:
        return 0
    if not baseline or head is None:
        raise typer.BadParameter("give --baseline (stored results) and --head (the new one), or `perf gate plan`")
    from ..analysis.gate.limits import Limits
    from ..experiments.gating import HistoryRequest, gate_history

    limits = Limits(min_effect=min_effect, must_detect=must_detect)
    request = HistoryRequest(tuple(baseline), head, tuple(metric or ()), allow_new, compare_anyway, limits)
    return _tell(gate_history(request), markdown, junit)


def _tell(outcome: HistoryOutcome, markdown: Path | None, junit: Path | None) -> int:
    """Write the verdict wherever it is wanted, and one line of it to stderr."""
    from ..analysis.gate.result import GateResult
    from ..experiments.files import write_atomically
    from ..reports.gate.junit import render_junit
    from ..reports.gate.markdown import render_gate
    from ..reports.gate.words import last_line

    notes = [f"Against {outcome.stored} stored results: a weaker promise than both versions side by side."]
    if outcome.machines_differ is not None:
        notes.append(f"NOT THE SAME MACHINE ({outcome.machines_differ})")
    text = render_gate(outcome.suite, notes)
    if markdown is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(markdown, text)
    if junit is not None:
        write_atomically(junit, render_junit(GateResult(outcome.suite, "history", "", "", {}, tuple(notes))))
    typer.echo(f"perf: gate: {last_line(outcome.suite)}", err=True)
    return outcome.suite.exit_code


@gate.command("plan")
def plan_(
    sd: Annotated[float, typer.Option(help="Spread of equal arms between launches, a fraction (A/A calibration).")],
    points: Annotated[int, typer.Option(min=1, help="Points of the sweep.")] = 1,
    launches: Annotated[int, typer.Option(help="Launches of each arm.")] = 5,
    pairs: Annotated[int, typer.Option(help="Pairs of blocks in a launch, for each point.")] = 6,
    block: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Length of a block.")] = 1.2,
    launch: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Until both arms are ready.")] = 10.0,
    min_effect: MinEffect = 0.02,
    must_detect: MustDetect = 0.05,
) -> int:
    """Say what a paired gate finds on a machine, and how long it takes, before it runs."""
    from ..analysis.gate.detectable import plan
    from ..analysis.gate.limits import Limits
    from ..reports.jsonable import to_json

    if not 0 <= sd < 1:
        raise typer.BadParameter(f"--sd is {sd}; give a fraction from 0 to 1, 0.01 for 1 %")
    limits = Limits(min_effect=min_effect, must_detect=must_detect, launches=launches, pairs=pairs)
    found = plan(sd, points, limits, block_s=block, launch_s=launch)
    typer.echo(to_json(asdict(found)), nl=False)
    return 0
