"""`perf claims`: stored runs to one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...analysis.claims.judge import judge
from ...analysis.claims.points import ClaimData
from ...analysis.claims.registry import CLAIMS
from ...errors import UsageError
from ...reports.claims.page import render_claims
from ...reports.claims.view import RunView
from ..files import make_writable, write_atomically
from ..store import SweepStore
from .collect import collect
from .stored import ClaimRun, read_run, write_run

MOST = 2
"""Runs that one page tells of: the run, and its repetition."""


def load_run(path: Path) -> ClaimRun:
    """A stored run, or the one in a sweep's folder. Raises UsageError for anything else."""
    if path.is_dir():
        return collect(SweepStore.open(path))
    return read_run(path)


def view_of(path: Path, run: ClaimRun) -> RunView:
    """The run, judged."""
    judged = tuple(
        judge(claim, ClaimData([point for point in run.points if point.claim == name]))
        for name, claim in CLAIMS.items()
    )
    return RunView(path.name, run.date, run.machine, run.command, judged, run.origin)


def page_of(paths: Sequence[Path]) -> str:
    """The page of one run, or of a run and its repetition. Raises UsageError."""
    if not 1 <= len(paths) <= MOST:
        raise UsageError(f"perf claims: {len(paths)} runs given; give a run, or a run and its repetition")
    return render_claims([view_of(path, load_run(path)) for path in paths])


def store_run(sweep: Path, out: Path) -> None:
    """Write the file of the run in a sweep's folder."""
    write_run(out, load_run(sweep))


def write_page(paths: Sequence[Path], out: Path) -> None:
    """Write the page. Raises UsageError where it cannot be written."""
    make_writable(out.parent)
    write_atomically(out, page_of(paths))
