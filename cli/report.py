"""`perf report`: a recording or a sweep as a page, as text, Markdown or JSON."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    """What a report can be written as."""

    HTML = "html"
    TEXT = "text"
    MD = "md"
    JSON = "json"


def report(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A recording, or the folder of a sweep or a run.")],
    format_: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.HTML,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to. [html: report.html beside PATH; else: stdout]"),
    ] = None,
) -> None:
    """Report a recording or a sweep: one self-contained HTML file, or text, Markdown or JSON on stdout."""
    from ..experiments.reporting import write_report

    typer.echo(write_report(path, format_.value, output), nl=False)
