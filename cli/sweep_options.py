"""Options of `perf sweep` alone, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Specs = Annotated[
    list[Path] | None, typer.Argument(metavar="[SPEC ...]", help="Spec files, YAML or TOML; none: a bundled one.")
]
Zip = Annotated[
    list[str] | None,
    typer.Option("--zip", metavar="KEY,KEY=V/V[,V/V ...]", help="Parameters that change side by side."),
]
Case = Annotated[
    list[str] | None,
    typer.Option("--case", metavar="NAME=REQS", help="A batch as vllm bench forward writes it: decode=32*1@8192."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Measure what is missing or failed in --out.")]
AllowMixed = Annotated[
    bool, typer.Option("--allow-mixed", help="Go on though the engine or the machine is another one.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the points and how long they will take; measure nothing.")
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", help="Give a point up then. [default: never]")
]
SkipDominated = Annotated[
    bool, typer.Option("--skip-dominated", help="Leave out what is larger than a point that ran out of memory.")
]
MaxFailures = Annotated[
    int | None, typer.Option("--max-failures", metavar="N", help="Stop after so many failed points.")
]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop after the first failed point.")]
Progress = Annotated[
    str, typer.Option("--progress", metavar="HOW", help="auto, bar, plain or json: one JSON object a line on stderr.")
]
Launcher = Annotated[
    str, typer.Option("--launcher", metavar="WHO", help="local: every GPU of this host; ray: those of a cluster.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="At most so many points at once. [default: one a GPU]")
]
Address = Annotated[
    str | None, typer.Option("--address", metavar="HOST:PORT", help="The Ray cluster. [default: this host's]")
]
