"""`perf step`: the minimal reproducible experiment, the small arrays of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def step(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Your own requests, YAML.")] = None,
    example: Annotated[
        str | None,
        typer.Option("--example", metavar="NAME", help="2-5-3, abc, minimal or condense. [default: minimal]"),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POINT",
            help="Stop there and print what stands: update_states, add_request, condense, cumsum, gather, slot_mapping,"
            " attention_metadata, logits.",
        ),
    ] = None,
    plant: Annotated[
        str | None,
        typer.Option("--plant", metavar="FAULT", help="Plant a fault, to see a check fire; 'list' names them."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every step, not only the one of interest.")] = False,
) -> int:
    """Print a step as its smallest arrays: requests, boundaries, positions, blocks, slots, logits, discards.

    Ends with 1 and names the first broken invariant if there is one. Without FILE a built-in example runs.
    """
    from ..experiments.minimal.run import run_minimal

    outcome = run_minimal(file, example, at=at, plant=plant, every=every)
    typer.echo(outcome.text)
    if outcome.broken is not None:
        raise outcome.broken
    return 0
