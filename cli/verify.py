"""`perf verify`: plants random truths and checks that the tool finds them, on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Device


def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP ...]", help="all, recorder, overlap, pinned, padding, runner, or checks. [default: all]"
        ),
    ] = None,
    device: Device = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Seed of everything that is planted; several: a check runs once with each. [default: 0]"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases, the same tolerances.")] = False,
    seconds: Annotated[float, typer.Option(help="How long checks of a real clock last.")] = 20.0,
    mutant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Break the tool so first: its checks must then fail. all: each in turn."),
    ] = None,
) -> int:
    """Print what was planted, what was found and the tolerance; ends with 1 when a check fails."""
    from ..experiments import verifying

    options = verifying.VerifyOptions(quick=quick, seconds=seconds, mutant=mutant)
    return verifying.verify(names or ["all"], device, seeds=seed or [0], options=options, say=typer.echo)
