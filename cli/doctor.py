"""`perf doctor`: what this machine can measure; with `--calibrate`, what its GPU costs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Findings as JSON.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this GPU and write a calibration file (2 minutes).")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="PATH",
            help="Where results would go; with --calibrate the file to write. [default: sweep-out; calibration.json]",
        ),
    ] = None,
) -> None:
    """Say what this machine can measure, and what to do about what it cannot."""
    if calibrate:
        _calibrate(out)
        return
    import dataclasses

    from ..experiments.doctor.examine import examine

    findings = examine(out or Path("sweep-out"))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=1))
        return
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        typer.echo(f"{finding.verdict:7}  {finding.name:{width}}  {finding.found}")
        if finding.mend:
            typer.echo(f"{'':7}  {'':{width}}  -> {finding.mend}")


def _calibrate(out: Path | None) -> None:
    from ..experiments.calibrate.run import calibrate

    written = calibrate(out, _say)
    typer.echo("\n".join(written.lines))
    typer.echo(f"calibration: {written.file}; raw figures: {written.raw_file}")
    typer.echo(f"use it: perf run --device sim --param calibration={written.file}")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
