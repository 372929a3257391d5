"""`perf diff`: two recordings, or a recording and a capture, phase by phase."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    """What a comparison can be written as."""

    TEXT = "text"
    MD = "md"
    JSON = "json"
    HTML = "html"


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="A recording, a run's folder, or a capture.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    format_: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "--out", "-o", metavar="FILE", help="Where to. [default: stdout]")
    ] = None,
    agree: Annotated[
        bool,
        typer.Option(
            "--agree",
            help="End with 1 where two views of one run differ by more than err, with 5 where nothing was judged.",
        ),
    ] = False,
) -> int:
    """Lay two recordings side by side, phase by phase and copies by kind; judge two views of one run.

    Ends with 5 for two that must not be compared: modelled with measured, or a capture of another run.
    """
    from ..experiments import diffing

    found = diffing.diff(a, b, format_.value, output)
    typer.echo(found.text, nl=False)
    return diffing.agreement(a, b, found) if agree else 0
