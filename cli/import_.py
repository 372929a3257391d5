"""`perf import`: a capture of Nsight Systems or of the PyTorch profiler becomes a recording."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from .options import Force


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="An nsys export or report (.sqlite, .nsys-rep), or Kineto traces (.json, .json.gz), one a rank.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "--out", "-o", metavar="DIR", help="Folder of the recording. [default: FILE's name.recording]"
        ),
    ] = None,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Take what is whole of a cut or damaged trace, and say what was lost.")
    ] = False,
    phase_map: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="YAML: which ranges are preprocess, forward, sample, and steps."),
    ] = None,
    scrub_copy: Annotated[
        Path | None,
        typer.Option(
            "--scrub-copy", metavar="OUT",
            help="Also write the capture without environments, command lines, outputs, paths and users.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Import a capture that another profiler made: write a recording, and print in short what it says.

    `perf report` of the capture, or of the recording, has all of it.
    """
    from ..experiments.importing import import_capture

    done = import_capture(files, output, salvage=salvage, phase_map=phase_map, scrubbed=scrub_copy, force=force)
    typer.echo(f"recording: {done.folder}")
    if scrub_copy is not None:
        typer.echo(f"scrubbed copy: {scrub_copy}")
    typer.echo(f"a page of it: perf report {shlex.quote(str(done.folder))}\n")
    typer.echo(done.text, nl=False)
