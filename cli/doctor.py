"""`perf doctor`: what this machine can measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Findings as JSON.")] = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results would go.")] = Path("sweep-out"),
) -> None:
    """Say what this machine can measure, and what to do about what it cannot."""
    import dataclasses

    from ..experiments.doctor import examine

    findings = examine(out)
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=1))
        return
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        typer.echo(f"{finding.verdict:7}  {finding.name:{width}}  {finding.found}")
        if finding.mend:
            typer.echo(f"{'':7}  {'':{width}}  -> {finding.mend}")
