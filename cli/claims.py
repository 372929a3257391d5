"""`perf claims`: what measured claims say, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def claims(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of sweeps of claims, or stored runs.")
    ],
    out: Annotated[Path | None, typer.Option(help="File of the page, Markdown; none: print it.")] = None,
    store: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the raw turns of the sweep RUN in this file, and no page.")
    ] = None,
) -> int:
    """Judge claims by what a sweep of examples/claims/*.yaml measured.

    The page has each claim in one sentence, its arms, its figures with intervals, and the verdict: holds, holds where,
    does not hold. Runs of several machines stand beside each other, every two of them compared figure by figure, and
    all of them are judged together. Give runs in the order in which they were made: a claim whose spec was changed is
    judged by the runs of the last one's spec.
    """
    from ..experiments.claims import book

    if store is not None:
        book.store_run(runs[0], store)
        typer.echo(f"raw turns: {store}")
    elif out is not None:
        book.write_page(runs, out)
        typer.echo(f"page: {out}")
    else:
        typer.echo(book.page_of(runs), nl=False)
    return 0
