"""`perf verify`: plants random truths and checks that the tool finds them, on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Device


def verify(
    group: Annotated[
        str, typer.Argument(metavar="[GROUP]", help="all, recorder, overlap, pinned, padding or runner.")
    ] = "all",
    device: Device = None,
    seed: Annotated[int, typer.Option(help="Seed of everything that is planted.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases, the same tolerances.")] = False,
    seconds: Annotated[float, typer.Option(help="How long checks of a real clock last.")] = 20.0,
    mutant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Break the tool in this way first: its checks must then fail.")
    ] = None,
) -> int:
    """Print what was planted, what was found and the tolerance; ends with 1 when a check fails."""
    from ..experiments import verifying

    outcome = verifying.verify(group, device, seed=seed, quick=quick, seconds=seconds, mutant=mutant)
    typer.echo(outcome.text)
    return outcome.exit_code
