"""`perf sizes`: the best CUDA-graph capture sizes for a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Device


def sizes(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A recording, a serving trace, or a spec.")],
    train: Annotated[float, typer.Option(help="Share of the steps to choose by; the rest judges.")] = 0.5,
    budget: Annotated[int | None, typer.Option(help="Most graphs. [default: as many as vLLM's ladder]")] = None,
    maximum: Annotated[
        int | None, typer.Option("--max", metavar="SIZE", help="Largest size, always captured. [default: the ladder's]")
    ] = None,
    multiple: Annotated[int, typer.Option(help="Sizes are multiples of it, e.g. ranks that share a sequence.")] = 1,
    force: Annotated[
        list[int] | None, typer.Option("--force", metavar="SIZE", help="Capture this size too. Repeatable.")
    ] = None,
    memory: Annotated[int | None, typer.Option(metavar="MIB", help="Most memory of all graphs.")] = None,
    drafts: Annotated[int | None, typer.Option(help="Speculative tokens of a decode: sizes are whole decodes.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="Requests at a time, for the ladders.")] = None,
    limit: Annotated[int | None, typer.Option(help="Requests taken from the head of a trace.")] = None,
    speed: Annotated[float | None, typer.Option(help="Arrivals of a trace come this many times faster.")] = None,
    calibration: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FILE", help="Curves T(size). [default: the recording's]")
    ] = None,
    cost_model: Annotated[str | None, typer.Option(metavar="SHAPE", help="Calibrated shape.")] = None,
    run: Annotated[int, typer.Option(metavar="STEPS", help="Run both lists for so many steps and measure.")] = 0,
    device: Device = None,
) -> int:
    """Choose capture sizes by one part of a workload, judge them on the rest, and print them for each engine.

    The list is the exact optimum for the steps that it is chosen by, under the engines' rule: the next captured size.
    Ctrl-C ends it with what is known so far (exit 130).
    """
    from ..experiments.interrupt import Interrupt
    from ..experiments.sizing.find import SizesRequest, find_sizes
    from ..reports.sizes_text import render_sizes
    from .stages import Stages

    fields: dict[str, Any] = {
        "train": train, "budget": budget, "maximum": maximum, "multiple": multiple, "force": tuple(force or ()),
        "memory_mib": memory, "drafts": drafts, "max_num_seqs": max_num_seqs, "limit": limit, "speed": speed,
        "calibration": calibration, "cost_model": cost_model, "run": run, "device": device,
    }  # fmt: skip
    with Interrupt() as interrupt, Stages(interrupt) as stages:
        view = find_sizes(SizesRequest(path=source, **fields), stages)
    typer.echo(render_sizes(view))
    if interrupt.requested:
        typer.echo("perf: interrupted: what is printed covers the steps up to here", err=True)
        return 130
    return 0
