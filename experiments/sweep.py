"""A sweep from its specs to its results: plan, measure point by point, keep what was measured whatever happens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StepscopeError, UsageError
from . import specs
from .axes import parse_params
from .interrupt import Interrupt
from .launches import launches, run_launch
from .loading import Tree, load_tree
from .observer import SweepObserver
from .plan import Plan, Point, make_plan, parameters
from .spec import SECTIONS, resolve_paths
from .store import PointResult, SweepStore

if TYPE_CHECKING:
    from .measure import Measured

RESULTS = Path("sweep-out")
"""Where sweeps go that were given no folder."""


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """How a sweep ended: points by status, and whether Ctrl-C cut it short."""

    num_ok: int
    num_failed: int
    interrupted: bool

    @property
    def exit_code(self) -> int:
        """0, 3 when points failed, 130 when interrupted."""
        if self.interrupted:
            return 130
        return 3 if self.num_failed else 0


def load_specs(paths: Sequence[Path]) -> list[tuple[str, Tree]]:
    """Name and tree of each spec; the bundled default where none is given."""
    if paths:
        return [(str(path), _tree(path)) for path in paths]
    with resources.as_file(resources.files(specs) / "default.yaml") as path:
        return [("default", load_tree(path))]


def _tree(path: Path) -> Tree:
    """A spec file's; of a recording of ours (its folder), or of a run's folder, the spec that made it."""
    if not path.is_dir():
        return resolve_paths(load_tree(path), path.parent)
    from .reporting import recording_at

    configuration = recording_at(path).meta.configuration
    if "runner" not in configuration:
        raise UsageError(f"{path}: was not recorded from a spec of ours; give a spec file")
    return {name: configuration[name] for name in SECTIONS if name in configuration}


def plan_sweep(paths: Sequence[Path], params: Sequence[str]) -> Plan:
    """The plan for `paths` (none: the default spec) under the `--param` texts. Raises UsageError."""
    return make_plan(load_specs(paths), parse_params(params))


def open_sweep(paths: Sequence[Path], params: Sequence[str], out: Path | None, *, resume: bool) -> SweepStore:
    """The folder to measure into: a new one, or with `resume` the one in `out` (else the latest one)."""
    if not resume:
        plan = plan_sweep(paths, params)
        return SweepStore.create(out or RESULTS / f"{datetime.now():%Y%m%d-%H%M%S}", plan)
    root = out or _latest()
    return SweepStore.resume(root, plan_sweep(paths, params) if paths or params else None)


def _latest() -> Path:
    found = sorted(path.parent for path in RESULTS.glob("*/plan.json"))
    if not found:
        raise UsageError(f"{RESULTS}: holds no sweep to resume; name its folder with --out")
    return found[-1]


def run_sweep(store: SweepStore, observer: SweepObserver) -> SweepOutcome:
    """Measure every point that has not ended well yet. A point that fails is recorded, and the sweep goes on."""
    missing = [point for point in store.plan.points if store.status(point) != "ok"]
    observer.started(len(store.plan.points), len(store.plan.points) - len(missing))
    try:
        num_failed, interrupted = _measure_all(store, missing, observer)
    finally:
        observer.ended()
    return SweepOutcome(len(store.done()), num_failed, interrupted)


def _measure_all(store: SweepStore, missing: Sequence[Point], observer: SweepObserver) -> tuple[int, bool]:
    """(points that failed, whether Ctrl-C cut it short)."""
    from ..runner.models.weights import shared_weights

    num_failed, interrupted = 0, False
    with Interrupt() as interrupt, shared_weights():
        for points in launches(missing):
            for point in points:
                observer.point_started(point)
            if points[0].spec.measure.interleave is None:
                results = [_run_point(store, points[0], interrupt)]
            else:
                results = run_launch(store, points, interrupt)
            for result in results:
                if result is not None:
                    num_failed += result.status == "failed"
                    observer.point_finished(result)
            if None in results:
                interrupted = True
                break
    return num_failed, interrupted


def _run_point(store: SweepStore, point: Point, interrupt: Interrupt) -> PointResult | None:
    """Measure and store one point; None when Ctrl-C came first."""
    from .summary import origin_of, summary_of

    folder = store.begin(point)
    started = time.perf_counter()
    try:
        measured = _measured(point, folder / "recording", interrupt)
        if interrupt.requested:
            store.abandon(folder)
            return None
        record = {**summary_of(measured), **origin_of(measured)}
        result = PointResult(point, "ok", wall_s=time.perf_counter() - started)
    except KeyboardInterrupt:
        store.abandon(folder)
        return None
    except StepscopeError as error:
        result, record = _failed(point, str(error), started), {}
    except Exception as error:  # noqa: BLE001 - one point's defect must not cost the others their results
        result, record = _failed(point, f"{type(error).__name__}: {error}", started), {}
    store.finish(folder, result, {"parameters": parameters(point.spec), **record})
    return result


def _measured(point: Point, folder: Path, interrupt: Interrupt) -> Measured:
    from ..instrumentation.recording.meta import SweepKeys
    from .measure import measure

    keys = SweepKeys(point=point.id, launch=point.repeat)
    return measure(point.spec, folder, sweep=keys, interrupted=lambda: interrupt.requested)


def _failed(point: Point, reason: str, started: float) -> PointResult:
    return PointResult(point, "failed", " ".join(reason.split()), time.perf_counter() - started)


def report_sweep(store: SweepStore) -> str:
    """Write report.html; the text summary and the page's path, for the terminal."""
    from ..reports import render_sweep
    from .reporting import write_page
    from .sweep_view import sweep_view

    view = sweep_view(store)
    page = store.root / "report.html"
    write_page(page, render_sweep(view, "html"))
    return f"{render_sweep(view, 'text').rstrip()}\n\nreport: {page}"


def interruption(store: SweepStore) -> str:
    """The line that tells what an interrupted sweep has kept and how to go on."""
    done, total = len(store.done()), len(store.plan.points)
    mend = f"go on with: perf sweep --resume --out {store.root}"
    return f"interrupted: {done} of {total} points are kept in {store.root}; {mend}"
