"""Options that several verbs share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="KEY=V1[,V2 ...]", help="Set a parameter; several values make an axis of it."),
]
Device = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="auto, cpu, sim or cuda; wins over the spec."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for the results. [default: a new one]"),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the recording that the folder holds already.")]
