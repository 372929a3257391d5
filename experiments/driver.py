"""The loop of a sweep: tasks to workers, outcomes into the store, and what a failure means for the rest."""

from __future__ import annotations

import math
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from .data_set import DataSet
from .dominance import Dominance
from .identity import ENGINE, differences
from .interrupt import Interrupt
from .lock import SweepLock
from .observer import SweepObserver
from .point import Point, parameters
from .store import PointResult, SweepStore
from .workers.failures import STOPS_SWEEP
from .workers.launcher import Launcher
from .workers.task import Outcome, Task, TaskDone, points_by_key

WAIT_S = 0.5
"""The longest time between two looks at Ctrl-C and at the lock."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What a failure means.

    max_failures    stop after so many; None: never
    skip_dominated  leave out points that are larger than one that ran out of memory
    timeout_s       wall seconds that a point may take; None: no limit
    allow_mixed     keep results of different engines in one sweep
    elsewhere       workers are on other machines, which are not compared with the driver's
    """

    max_failures: int | None = None
    skip_dominated: bool = False
    timeout_s: float | None = None
    allow_mixed: bool = False
    elsewhere: bool = False


def stop_rules(
    *, max_failures: int | None, skip_dominated: bool, timeout_s: float | None, allow_mixed: bool,
    elsewhere: bool = False,
) -> SweepOptions:  # fmt: skip
    """SweepOptions of a command line. Raises UsageError for numbers that are none."""
    if max_failures is not None and max_failures < 1:
        raise UsageError(f"--max-failures: {max_failures} is too small; at least 1")
    if timeout_s is not None and not 0 < timeout_s < math.inf:
        raise UsageError(f"--timeout: {timeout_s} is no time limit; give seconds above 0")
    return SweepOptions(max_failures, skip_dominated, timeout_s, allow_mixed, elsewhere)


@dataclass(slots=True)
class Tally:
    """What happened so far."""

    num_failed: int = 0
    num_skipped: int = 0
    interrupted: bool = False
    stopped: str = ""
    """Why the sweep ended before its last point; empty when it did not."""
    running: dict[int, Task] = field(default_factory=dict)


class Driver:
    """Runs tasks to their end. One object runs once."""

    def __init__(
        self, store: SweepStore, launcher: Launcher, observer: SweepObserver, options: SweepOptions, lock: SweepLock,
        tables: DataSet,
    ) -> None:  # fmt: skip
        self._store, self._launcher, self._observer = store, launcher, observer
        self._options, self._lock, self._tables = options, lock, tables
        self._dominance = Dominance()
        self._engine: Mapping[str, Any] | None = None
        self.tally = Tally()

    def run(self, tasks: Sequence[Task], interrupt: Interrupt, engine: Mapping[str, Any] | None = None) -> Tally:
        """All of `tasks`, until Ctrl-C or too many failures. `engine`: the identity of what is stored already."""
        self._engine = engine
        queue = deque(tasks)
        told = False
        while (queue and not self._ending(interrupt)) or self.tally.running:
            while queue and not self._ending(interrupt) and self._launcher.free():
                self._begin(queue.popleft())
            if interrupt.requested and not told:
                told = True
                self._launcher.interrupt()
            for done in self._launcher.wait(WAIT_S):
                self._end(done, queue)
            self._lock.beat()
        self.tally.interrupted = interrupt.requested
        return self.tally

    def _ending(self, interrupt: Interrupt) -> bool:
        return interrupt.requested or bool(self.tally.stopped)

    def _begin(self, task: Task) -> None:
        """Start `task`, without the points that cannot fit."""
        smaller = {point.key: self._dominance.over(point) for point in task.points}
        if self._options.skip_dominated and any(smaller.values()):
            # arms of one launch are compared with one another: without one of them the others are not worth it
            for point in task.points:
                self._skip(point, smaller[point.key] or next(filter(None, smaller.values())))
            return
        for point in task.points:
            self._observer.point_started(point)
        self.tally.running[task.number] = task
        self._launcher.start(task)

    def _skip(self, point: Point, smaller: Point) -> None:
        reason = f"dominated: at least as large as {smaller.title}, which ran out of memory (--skip-dominated)"
        self.tally.num_skipped += 1
        self._store_result(PointResult(point, "skipped", reason, kind="dominated"), None, {})

    def _end(self, done: TaskDone, queue: deque[Task]) -> None:
        del self.tally.running[done.task.number]
        if done.lost_elsewhere:
            queue.appendleft(done.task)
            return
        points = points_by_key(done.task.points)
        mixed = self._mixed(done.worker.get("identity"))
        for outcome in done.outcomes:
            if mixed and outcome.status == "ok":
                outcome = Outcome(outcome.key, "failed", "mixed", mixed, outcome.wall_s, folder=outcome.folder)
            self._keep(points[outcome.key], outcome, done.worker)

    def _mixed(self, identity: Mapping[str, Any] | None) -> str:
        """Why results of a worker with `identity` do not belong here; empty when they do."""
        if identity is None or self._options.allow_mixed:
            return ""
        if self._engine is None:
            self._engine = identity
        found = differences(self._engine, identity, ENGINE)
        if not found:
            return ""
        return f"measured with another engine than the rest ({', '.join(found)}); --allow-mixed keeps both"

    def _keep(self, point: Point, outcome: Outcome, worker: Mapping[str, Any]) -> None:
        if outcome.status == "interrupted":
            if outcome.folder is not None:
                shutil.rmtree(outcome.folder, ignore_errors=True)
            return
        if outcome.kind in STOPS_SWEEP:
            told = f"{self._store.root}: {point.title} could not be stored: {outcome.reason}"
            raise UsageError(f"{told}; {self._store.mend}")
        result = PointResult(point, outcome.status, outcome.reason, outcome.wall_s, outcome.kind)
        if outcome.kind == "oom":
            self._dominance.add(point)
        self._store_result(result, outcome, worker)
        if outcome.status == "failed":
            self.tally.num_failed += 1
            most = self._options.max_failures
            if most is not None and self.tally.num_failed >= most:
                self.tally.stopped = f"stopped after {self.tally.num_failed} failed points"

    def _store_result(self, result: PointResult, outcome: Outcome | None, worker: Mapping[str, Any]) -> None:
        """On disk first, then told. A disk that takes nothing more ends the sweep: it would lose all that follows."""
        self._lock.check()
        self._lock.beat()  # many points that are skipped come one after another
        point = result.point
        record: dict[str, Any] = {"parameters": parameters(point.spec)}
        if outcome is not None:
            record |= {**outcome.record, **_attempt(worker)}
        with self._store.writing(point.title):
            folder = outcome.folder if outcome is not None and outcome.folder is not None else self._store.begin(point)
            if worker.get("output"):
                (folder / "output.log").write_text(f"{worker['output']}\n", encoding="utf-8")
            self._store.finish(folder, result, record)
            self._tables.add(point)
        self._observer.point_finished(result)


def _attempt(worker: Mapping[str, Any]) -> dict[str, Any]:
    """Where a point was measured, for its summary."""
    if "identity" not in worker:
        return {}
    facts = {name: value for name, value in worker.items() if name not in ("identity", "output")}
    return {"environment": worker["identity"], "worker": facts}
