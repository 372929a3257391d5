"""`perf claims`: stored runs to one page.

Each run after the first is a repetition, on a machine of its own. A claim's runs are those whose spec is that of the
last file that has the claim. A file with another one is told, and its points of that claim are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...analysis.claims.judge import judge
from ...analysis.claims.points import ClaimData, ClaimPoint
from ...analysis.claims.registry import CLAIMS
from ...analysis.claims.same_spec import of_last_spec
from ...reports.claims.page import render_claims
from ...reports.claims.view import RunView
from ..files import make_writable, write_atomically
from ..store import SweepStore
from .collect import collect
from .stored import ClaimRun, read_run, write_run


def load_run(path: Path) -> ClaimRun:
    """A stored run, or the one in a sweep's folder. Raises UsageError for anything else."""
    if path.is_dir():
        return collect(SweepStore.open(path))
    return read_run(path)


def views_of(runs: Sequence[tuple[Path, ClaimRun]]) -> list[RunView]:
    """The runs, judged, in the order of their files."""
    points = [_by_claim(run) for _, run in runs]
    used: dict[str, list[int]] = {}
    earlier: dict[str, list[int]] = {}
    for name in CLAIMS:
        used[name], earlier[name] = of_last_spec([found.get(name, []) for found in points])
    return [
        RunView(
            path.name, run.date, run.machine, run.command,
            tuple(judge(claim, ClaimData(points[number].get(name, []) if number in used[name] else []))
                  for name, claim in CLAIMS.items()),
            run.origin, tuple(name for name in CLAIMS if number in earlier[name]),
        )
        for number, (path, run) in enumerate(runs)
    ]  # fmt: skip


def _by_claim(run: ClaimRun) -> dict[str, list[ClaimPoint]]:
    found: dict[str, list[ClaimPoint]] = {}
    for point in run.points:
        found.setdefault(point.claim, []).append(point)
    return found


def page_of(paths: Sequence[Path]) -> str:
    """The page of some runs. Raises UsageError."""
    return render_claims(views_of([(path, load_run(path)) for path in paths]))


def store_run(sweep: Path, out: Path) -> None:
    """Write the file of the run in a sweep's folder."""
    write_run(out, load_run(sweep))


def write_page(paths: Sequence[Path], out: Path) -> None:
    """Write the page. Raises UsageError where it cannot be written."""
    make_writable(out.parent)
    write_atomically(out, page_of(paths))
