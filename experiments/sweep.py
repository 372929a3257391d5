"""A sweep from its specs to its results: plan, measure point by point, keep what was measured whatever happens."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import MeasurementError, UsageError
from . import specs, turnstile
from .axes import parse_params, parse_zips, with_cases
from .data_set import DataSet
from .driver import Driver, SweepOptions
from .estimate import estimate
from .files import write_atomically
from .identity import ENGINE, MACHINE, Identity, differences, identity
from .interrupt import Interrupt
from .launches import num_resident, tasks
from .loading import Tree, load_tree
from .lock import SweepLock
from .observer import UNWATCHED, SweepObserver
from .plan import Plan, Point, make_plan
from .result_folder import new_folder
from .spec import SECTIONS, resolve_paths
from .store import SweepStore
from .workers.launcher import Launcher, Workers
from .workers.process import WorkerProcess
from .workers.residents import Residents

DEFAULTS = SweepOptions()
MakeLauncher = Callable[[Path], Launcher]

RESULTS = Path("sweep-out")
"""Where sweeps go that were given no folder."""
_CASE_STEPS = {"steps": 200, "steps_modelled": 24}
"""Measured steps of a case where no spec says how many."""
KNOWN_SWEEPS = 5
"""So many of the latest ones there are asked how long their points took."""


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """How a sweep ended.

    num_ok                   points that are there, those of earlier runs included
    num_failed, num_skipped  of this run
    interrupted              Ctrl-C cut it short
    stopped                  why it ended before its last point; empty when it did not
    """

    num_ok: int
    num_failed: int
    interrupted: bool
    num_skipped: int = 0
    stopped: str = ""

    @property
    def exit_code(self) -> int:
        """0, 3 when points failed or were skipped, 130 when interrupted."""
        if self.interrupted:
            return 130
        return 3 if self.num_failed or self.num_skipped else 0


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


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be measured: spec files, the `--param` and `--zip` texts, and `--case` of the command line.

    `elsewhere`: on other machines than this one.
    """

    paths: Sequence[Path] = ()
    params: Sequence[str] = ()
    zips: Sequence[str] = ()
    cases: Sequence[str] = ()
    elsewhere: bool = False

    def __bool__(self) -> bool:
        return bool(self.paths or self.params or self.zips or self.cases)


def plan_sweep(request: Request) -> Plan:
    """The plan for `request` (no spec: the default one). Raises UsageError."""
    axes, zips = parse_params(request.params), parse_zips(request.zips)
    if not request.cases:
        return make_plan(load_specs(request.paths), axes, zips, elsewhere=request.elsewhere)
    trees = load_specs(request.paths) if request.paths else [("command line", {"measure": dict(_CASE_STEPS)})]
    trees = [(name, with_cases(tree, request.cases)) for name, tree in trees]
    return make_plan(trees, axes, zips, elsewhere=request.elsewhere)


def open_sweep(request: Request, out: Path | None, *, resume: bool) -> SweepStore:
    """The folder to measure into: a new one, or with `resume` the one in `out` (else the latest one)."""
    if not resume:
        plan = plan_sweep(request)
        return SweepStore.create(out or new_folder(RESULTS), plan)
    return SweepStore.resume(out or _latest(), plan_sweep(request) if request else None)


def _sweeps() -> list[Path]:
    """Folders of sweeps where nobody said where, the one that was begun last behind all others."""
    plans = RESULTS.glob("*/plan.json")
    return [path.parent for path in sorted(plans, key=lambda plan: (plan.stat().st_mtime_ns, plan))]


def _latest() -> Path:
    found = _sweeps()
    if not found:
        raise UsageError(f"{RESULTS}: holds no sweep to resume; name its folder with --out")
    return found[-1]


def preview(request: Request, out: Path | None, *, resume: bool, workers: int = 1) -> str:
    """What would be measured: id, launch and name of each point, and about how long it takes `workers` of them."""
    stores = [store for folder in _sweeps()[-KNOWN_SWEEPS:] if (store := _readable(folder))]
    if resume:
        store = SweepStore.open(out or _latest())
        stores.append(store)
        plan, done = store.plan, {point.key for point in store.done()}
    else:
        plan, done = plan_sweep(request), set()
    missing = [point for point in plan.points if point.key not in done]
    lines = [f"{point.key}  {point.title}{'  (measured)' if point.key in done else ''}" for point in plan.points]
    measured_s = {point.key: record["wall_s"] for store in stores for point, record in _records(store)}
    expected = estimate(missing, measured_s, max(num_resident(missing), workers))
    count = f"{len(plan.points)} points" if not done else f"{len(missing)} of {len(plan.points)} points to measure"
    return "\n".join([*lines, f"{count}, {expected.text()}"])


def _readable(folder: Path) -> SweepStore | None:
    """An earlier sweep that durations are taken from: one that cannot be read any more only makes them less exact."""
    try:
        return SweepStore.open(folder)
    except UsageError:
        return None


def _records(store: SweepStore) -> list[tuple[Point, dict[str, Any]]]:
    return [(point, record) for point in store.done() if (record := store.record(point))]


def run_sweep(
    store: SweepStore, observer: SweepObserver = UNWATCHED, launcher: MakeLauncher | None = None,
    options: SweepOptions = DEFAULTS,
) -> SweepOutcome:  # fmt: skip
    """Measure every point that has not ended well yet. A point that fails is recorded, and the sweep goes on.

    `launcher` makes the workers, given a folder for their files; None: those of this machine. Raises UsageError when
    somebody else works on this sweep, when what it holds was measured with another engine, when a file that it needs
    is gone, or when the disk is full.
    """
    make = launcher or (lambda scratch: local_workers(scratch, num_resident(store.plan.points)))
    with SweepLock(store.root) as lock:
        scratch = store.clear_work()
        engine = check_engine(store, options)
        tables = DataSet(store)
        with store.writing("the tables of all points"):
            tables.sync(lock.beat)
        missing = [point for point in store.plan.points if store.status(point) != "ok"]
        if not options.elsewhere:
            store.check_files(missing)
        workers = make(scratch)
        observer.started(len(store.plan.points), len(store.plan.points) - len(missing))
        driver = Driver(store, workers, observer, options, lock, tables)
        try:
            with Interrupt() as interrupt:
                tally = driver.run(tasks(missing, timeout_s=options.timeout_s), interrupt, engine)
        except KeyboardInterrupt:  # the second one: nothing is waited for
            tally = driver.tally
            tally.interrupted = True
        except MeasurementError as error:  # no worker is left
            raise MeasurementError(f"{error}; {kept(store)}") from error
        finally:
            workers.close()
            store.clear_work()
            observer.ended()
        with store.writing("the table of all points"):
            tables.write_summary()
    return SweepOutcome(len(store.done()), tally.num_failed, tally.interrupted, tally.num_skipped, tally.stopped)


def local_workers(scratch: Path, resident: int = 0) -> Launcher:
    """A worker process on this machine; or as many as live side by side and take turns by themselves."""
    if not resident:
        return Workers([WorkerProcess(scratch / "worker-0")])
    environ = {turnstile.ENVIRONMENT: str(scratch / "turnstile")}
    return Residents([WorkerProcess(scratch / f"worker-{number}", environ=environ) for number in range(resident)])


def check_engine(store: SweepStore, options: SweepOptions) -> Identity | None:
    """The identity behind the points that are there; None where there are none, or where any is welcome.

    Raises UsageError when this engine, or this machine unless points run elsewhere, is another one than theirs.
    """
    stored = [record.get("environment") or {} for _, record in _records(store)]
    if not stored or options.allow_mixed:
        return None
    here = identity()
    for theirs in stored:
        found = differences(theirs, here, ENGINE if options.elsewhere else (*ENGINE, *MACHINE))
        if found:
            raise UsageError(
                f"{store.root}: its points were measured with another engine or machine ({', '.join(found)});"
                " choose another --out to measure all anew, or add --allow-mixed to keep both"
            )
    return stored[0]


def report_sweep(store: SweepStore) -> str:
    """Write report.html; the text summary and the page's path, for the terminal."""
    from ..reports import render_sweep
    from .sweep_view import sweep_view

    view = sweep_view(store)
    page = store.root / "report.html"
    try:
        write_atomically(page, render_sweep(view, "html"))
    except OSError as error:
        raise UsageError(
            f"{page}: cannot be written ({error.strerror}); points are kept: make room, then"
            f" perf report {shlex.quote(str(store.root))}"
        ) from error
    return f"{render_sweep(view, 'text').rstrip()}\n\nreport: {page}"


def interruption(store: SweepStore) -> str:
    """The line that tells what an interrupted sweep has kept and how to go on."""
    return f"interrupted: {kept(store)}"


def kept(store: SweepStore) -> str:
    """How many points are there, and how to go on."""
    done, total = len(store.done()), len(store.plan.points)
    again = f"perf sweep --resume --out {shlex.quote(str(store.root))}"
    return f"{done} of {total} points are kept in {store.root}; go on with: {again}"
