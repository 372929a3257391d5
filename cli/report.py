"""`perf report`: a recording, a capture or a sweep as a page, as text, Markdown, JSON or a trace for Perfetto."""

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
    PERFETTO = "perfetto"


def report(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A recording, a capture, or the folder of a sweep or a run.")
    ],
    format_: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.HTML,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "--out", "-o", metavar="FILE", help="Where to. [html: report.html beside PATH; else: stdout]"
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="N", help="Of a capture: this device's work alone, named as on the page of all."),
    ] = None,
    rank: Annotated[int | None, typer.Option(metavar="N", help="Of a capture of several ranks: this alone.")] = None,
) -> None:
    """Report a recording, a capture or a sweep: one self-contained HTML file, or text, Markdown, JSON or trace events
    for ui.perfetto.dev on stdout."""
    from ..analysis.captures.selection import Selection
    from ..experiments.reporting import write_report

    typer.echo(write_report(path, format_.value, output, Selection(device, rank)), nl=False)
