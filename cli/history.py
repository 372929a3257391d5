"""`perf history`: where, over the commits of stored results, did a figure change?"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_UNDECIDED = 4


class HistoryFormat(str, Enum):
    """What a history can be written as."""

    TEXT = "text"
    HTML = "html"
    MD = "md"
    JSON = "json"


def history(
    paths: Annotated[
        list[Path], typer.Argument(metavar="DIR|FILE ...", help="Stored results, gate.json files, sweeps, or folders.")
    ],
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Look at this one. Repeatable. [default: times and counts]")
    ] = None,
    point: Annotated[str, typer.Option(metavar="TEXT", help="Only points whose names hold it.")] = "",
    alpha: Annotated[float, typer.Option(metavar="P", help="p below which a step is sure.")] = 0.001,
    min_effect: Annotated[float, typer.Option(metavar="FRACTION", help="No smaller change is a step.")] = 0.02,
    format_: Annotated[HistoryFormat, typer.Option("--format", help="How to write it.")] = HistoryFormat.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "--out", "-o", metavar="FILE", help="Where to. [default: stdout]")
    ] = None,
    fail_on_slower: Annotated[
        bool, typer.Option("--fail-on-slower", help="End with 1 where the last step of a series made it worse.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="First add the one result in DIR|FILE to this history.")
    ] = None,
    commit: Annotated[str, typer.Option(metavar="SHA", help="With --into: the commit that was measured.")] = "",
    time: Annotated[str | None, typer.Option(metavar="ISO", help="With --into: when. [default: the result's]")] = None,
) -> int:
    """Find the steps in stored results and name the commits between which they happened.

    Ends with 3 where nothing was measured and with 4 where every series is too short or too unsteady to say anything;
    with --into, which adds a result (once), that ends with 0. --fail-on-slower: 1 where a series got slower.
    Results of different machines are never put together.
    """
    from ..analysis.history.limits import StepLimits
    from ..experiments.history.changes import HistoryQuery, find_history
    from ..reports.history.rendering import render_history

    if into is None and (commit or time):
        raise typer.BadParameter("--commit and --time go with --into FILE")
    if into is not None:
        paths = _added(paths, into, commit, time)
    limits = StepLimits(alpha=alpha, min_effect=min_effect)
    found = find_history(HistoryQuery(tuple(paths), tuple(metric or ()), point, limits))
    text = render_history(found.view(), format_.value, paths[0].name if len(paths) == 1 else f"{len(paths)} paths")
    if output is None:
        typer.echo(text, nl=False)
    else:
        from ..experiments.files import write_atomically

        write_atomically(output, text)
        typer.echo(f"{output}")
    code = found.exit_code(fail_on_slower=fail_on_slower)
    return 0 if code == _UNDECIDED and into is not None else code  # a history is short at first


def _added(paths: list[Path], into: Path, commit: str, time: str | None) -> list[Path]:
    """What to look at once the result in `paths` is in `into`."""
    from ..experiments.history.store import add_result

    if not add_result(paths, into, commit, time):
        typer.echo(f"perf: history: {into} has this result of {commit.strip()} already; not added again", err=True)
    return [into]
