"""Options of `perf gate` and its sub-commands, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MinEffect = Annotated[float, typer.Option(metavar="FRACTION", help="No smaller slowdown is a regression; 0 to 1.")]
MustDetect = Annotated[
    float, typer.Option(metavar="FRACTION", help="A pass says that the slowdown is smaller; above --min-effect.")
]
Spec = Annotated[Path | None, typer.Option(metavar="FILE", help="What is measured. [default: two decode batches]")]
Launches = Annotated[int, typer.Option(help="Launches of each arm, at least 3; as many again if needed.")]
Pairs = Annotated[int, typer.Option(help="Pairs of blocks in a launch, for each point; at least 2.")]
Steps = Annotated[int, typer.Option(help="Counted steps of a block; at least 10.")]
Calibration = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A/A calibration. [default: this machine's, in the user's cache]")
]
Raw = Annotated[Path | None, typer.Option(metavar="FILE", help="Write every block of every launch as JSON.")]
Base = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ARM", help="checkout:DIR|REVISION, python:EXE, spec:FILE or set:KEY=VALUE; several add up."
        " [default: as installed]",
    ),
]  # fmt: skip
Head = Annotated[
    list[str] | None, typer.Option(metavar="ARM|FILE", help="The new one: an arm; with --baseline a stored result.")
]
Baseline = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE|DIR", help="Stored results, oldest first: JSON, sweeps, a folder of these. Repeatable."),
]
Metric = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Judge this one. Repeatable. [default: times and counts]")
]
AllowNew = Annotated[bool, typer.Option("--allow-new", help="Points that only the head has are new.")]
CompareAnyway = Annotated[
    bool, typer.Option("--compare-anyway", help="Compare stored results across machines; the result is marked.")
]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the result as JSON, too.")]
Markdown = Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown here, not to stdout.")]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML here, too.")]
