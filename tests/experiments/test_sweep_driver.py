"""The loop of a sweep with a launcher that does as it is told: stop rules, dominated points, full disks, resume."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.experiments import sweep as sweep_module
from stepscope.experiments.data_set import DataSet
from stepscope.experiments.driver import SweepOptions, stop_rules
from stepscope.experiments.plan import Plan, make_plan
from stepscope.experiments.store import PointResult, SweepStore
from stepscope.experiments.sweep import DEFAULTS, SweepOutcome, run_sweep
from stepscope.experiments.workers.task import Outcome, Task, TaskDone, all_failed, all_interrupted

IDENTITY = {"engine": "abc", "stepscope": "1", "torch": "2.9", "triton": None, "numpy": "2", "python": "3.11",
            "machine": "x86", "os": "Linux 6", "cpu_model": "fast", "gpu_name": None, "gpu_driver": None}  # fmt: skip
OTHER = {**IDENTITY, "engine": "xyz", "torch": "2.10"}
BASE = {"workload": {"regime": "steady"}, "device": "sim"}
Deed = Callable[[Task], tuple[Outcome, ...]]


def plan_of(**grid: list[object]) -> Plan:
    return make_plan([("mine.yaml", {**BASE, "grid": grid})], {})


class Obedient:
    """A launcher of one worker that measures nothing: `deeds` by the seed of the task's first point."""

    def __init__(self, scratch: Path, deeds: Mapping[int, str], identities: Mapping[int, object] | None = None) -> None:
        self._scratch, self._deeds, self._identities = scratch, dict(deeds), identities or {}
        self._task: Task | None = None
        self.started: list[int] = []
        self.closed = False

    def free(self) -> int:
        return int(self._task is None)

    def start(self, task: Task) -> None:
        self._task = task
        self.started.append(task.points[0].spec.workload.seed)

    def wait(self, timeout_s: float) -> list[TaskDone]:
        task, self._task = self._task, None
        if task is None:
            return []
        seed = task.points[0].spec.workload.seed
        deed = self._deeds.get(seed, "ok")
        worker = {"host": "here", "pid": 7, "identity": self._identities.get(seed, IDENTITY)}
        if deed == "lost":
            self._deeds[seed] = "ok"
            return [TaskDone(task, (), worker, lost_elsewhere=True)]
        if deed == "ctrl-c":
            sweep_module.Interrupt.requested = True  # type: ignore[attr-defined]
            return [TaskDone(task, all_interrupted(task), worker)]
        if deed != "ok":
            return [TaskDone(task, all_failed(task, deed, f"it was {deed}", 0.5), worker)]
        outcomes = []
        for point in task.points:
            folder = self._scratch / point.key
            (folder / "recording").mkdir(parents=True)
            outcomes.append(Outcome(point.key, "ok", wall_s=1.0, record={"metrics": {"n": seed}}, folder=folder))
        return [TaskDone(task, tuple(outcomes), worker)]

    def interrupt(self) -> None:
        """Nothing runs longer than a call."""

    def close(self) -> None:
        self.closed = True


class Watch:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.results: list[PointResult] = []
        self.begun: tuple[int, int] | None = None

    def started(self, total: int, already_done: int) -> None:
        self.begun = total, already_done

    def point_started(self, point: object) -> None:
        """Not looked at."""

    def point_finished(self, result: PointResult) -> None:
        self.results.append(result)

    def ended(self) -> None:
        """Not looked at."""


Run = Callable[..., tuple[SweepOutcome, Watch, Obedient]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run(plan, deeds, options)`: into one folder; again: a resume."""
    monkeypatch.setattr(sweep_module, "identity", lambda: IDENTITY)

    def call(
        plan: Plan, deeds: Mapping[int, str], options: SweepOptions = DEFAULTS, **more: object
    ) -> tuple[SweepOutcome, Watch, Obedient]:
        made: list[Obedient] = []

        def launcher(scratch: Path) -> Obedient:
            made.append(Obedient(scratch, deeds, **more))  # type: ignore[arg-type]
            return made[0]

        root = tmp_path / "sweep"
        store = SweepStore.resume(root, plan) if (root / "plan.json").exists() else SweepStore.create(root, plan)
        watch = Watch()
        outcome = run_sweep(store, watch, launcher, options)
        assert made[0].closed
        return outcome, watch, made[0]

    return call


def store_of(tmp_path: Path) -> SweepStore:
    return SweepStore.open(tmp_path / "sweep")


def test_a_failure_is_stored_with_its_class_and_the_sweep_goes_on(run: Run, tmp_path: Path) -> None:
    outcome, watch, _ = run(plan_of(seed=[0, 1, 2]), {1: "timeout"})
    assert (outcome.num_ok, outcome.num_failed, outcome.exit_code, outcome.stopped) == (2, 1, 3, "")
    assert [(result.status, result.kind) for result in watch.results] == [("ok", ""), ("failed", "timeout"), ("ok", "")]
    store = store_of(tmp_path)
    record = store.record(store.plan.points[1])
    assert record is not None
    assert (record["status"], record["kind"], record["reason"]) == ("failed", "timeout", "it was timeout")
    assert record["environment"] == IDENTITY
    assert record["worker"] == {"host": "here", "pid": 7}
    # AND only that one is measured again
    again, _, launcher = run(plan_of(seed=[0, 1, 2]), {})
    assert launcher.started == [1]
    assert (again.num_ok, again.exit_code) == (3, 0)


@pytest.mark.parametrize(("most", "started"), [(1, [0, 1]), (2, [0, 1, 2, 3])])
def test_a_sweep_stops_after_so_many_failures(run: Run, most: int, started: list[int]) -> None:
    outcome, _, launcher = run(
        plan_of(seed=list(range(6))), {1: "crash", 3: "oom", 5: "error"}, SweepOptions(max_failures=most)
    )
    assert launcher.started == started
    assert (outcome.num_failed, outcome.exit_code) == (most, 3)
    assert outcome.stopped == f"stopped after {most} failed points"


def test_what_is_larger_than_a_point_without_memory_is_skipped_and_says_so(run: Run, tmp_path: Path) -> None:
    # GIVEN sizes in rising order, of which a middle one runs out of memory; seeds tell the points apart
    tree = {**BASE, "points": [
        {"seed": 7, "table_width": 512, "max_num_seqs": 64},
        {"seed": 7, "table_width": 1024, "max_num_seqs": 64},
        {"seed": 7, "table_width": 1024, "max_num_seqs": 128},
        {"seed": 7, "table_width": 4096, "max_num_seqs": 64},
        {"seed": 7, "table_width": 4096, "max_num_seqs": 64, "commit_order": "last"},
        {"seed": 8, "table_width": 4096, "max_num_seqs": 64},
        {"seed": 7, "table_width": 520, "max_num_seqs": 999},
    ]}  # fmt: skip
    plan = make_plan([("mine.yaml", tree)], {})
    outcome, watch, _ = run(plan, {7: "oom"}, SweepOptions(skip_dominated=True))
    # THEN what is no smaller in any size and differs in nothing else is left out
    assert [result.status for result in watch.results] == [
        "failed", "skipped", "skipped", "skipped", "failed", "ok", "skipped",
    ]  # fmt: skip
    skipped = watch.results[1]
    assert skipped.kind == "dominated"
    assert skipped.reason == (
        f"dominated: at least as large as {plan.points[0].title}, which ran out of memory (--skip-dominated)"
    )
    assert (outcome.num_skipped, outcome.num_failed, outcome.exit_code) == (4, 2, 3)
    store = store_of(tmp_path)
    assert [store.status(point) for point in plan.points].count("skipped") == 4
    # AND without the switch each of them is tried
    _, watch, _ = run(plan, {7: "oom"})
    assert [result.status for result in watch.results] == ["failed"] * 6


def test_a_task_whose_node_was_lost_runs_again(run: Run) -> None:
    outcome, watch, launcher = run(plan_of(seed=[0, 1]), {0: "lost"})
    assert launcher.started == [0, 0, 1]
    assert (outcome.num_ok, [result.status for result in watch.results]) == (2, ["ok", "ok"])


def test_ctrl_c_keeps_what_is_whole(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module.Interrupt, "__init__", lambda self: None)
    monkeypatch.setattr(sweep_module.Interrupt, "__enter__", lambda self: self)
    monkeypatch.setattr(sweep_module.Interrupt, "__exit__", lambda self, *_: None)
    monkeypatch.setattr(sweep_module.Interrupt, "requested", False, raising=False)
    outcome, watch, launcher = run(plan_of(seed=[0, 1, 2]), {1: "ctrl-c"})
    assert (outcome.exit_code, outcome.num_ok, launcher.started) == (130, 1, [0, 1])
    assert [result.status for result in watch.results] == ["ok"]
    assert [path.name for path in (tmp_path / "sweep").iterdir() if path.name.startswith((".", "sweep.lock"))] == []


def test_another_engine_is_refused_before_anything_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(plan_of(seed=[0, 1]), {1: "error"})
    monkeypatch.setattr(sweep_module, "identity", lambda: OTHER)
    with pytest.raises(UsageError) as caught:
        run(plan_of(seed=[0, 1]), {})
    assert str(caught.value) == (
        f"{tmp_path / 'sweep'}: its points were measured with another engine or machine (stepscope's source abc -> xyz,"
        " torch 2.9 -> 2.10); choose another --out to measure all anew, or add --allow-mixed to keep both"
    )
    outcome, _, _ = run(plan_of(seed=[0, 1]), {}, SweepOptions(allow_mixed=True), identities={1: OTHER})
    assert outcome.num_ok == 2


def test_a_worker_with_another_engine_does_not_count(run: Run, tmp_path: Path) -> None:
    _, watch, _ = run(plan_of(seed=[0, 1, 2]), {}, identities={1: OTHER})
    assert [(result.status, result.kind) for result in watch.results] == [("ok", ""), ("failed", "mixed"), ("ok", "")]
    assert "measured with another engine than the rest (stepscope's source abc -> xyz" in watch.results[1].reason


def test_a_point_is_ok_when_all_its_launches_are(run: Run, tmp_path: Path) -> None:
    # GIVEN three launches of one point, the middle one lost on the way
    plan = make_plan([("mine.yaml", {**BASE, "measure": {"repeats": 3}})], {})
    store = SweepStore.create(tmp_path / "sweep", plan)
    for point, status in zip(plan.points, ("ok", "failed", "ok"), strict=True):
        store.finish(store.begin(point), PointResult(point, status, "" if status == "ok" else "broke"), {})  # type: ignore[arg-type]
    (folder,) = (tmp_path / "sweep" / "points").iterdir()
    whole = json.loads((folder / "summary.json").read_text())
    assert sorted(path.name for path in folder.iterdir()) == ["launch-1", "launch-2", "launch-3", "summary.json"]
    assert (whole["status"], whole["launches"], whole["launches_ok"]) == ("failed", 3, 2)
    assert whole["reason"] == "launch 2: broke"
    # WHEN it is measured again
    store.finish(store.begin(plan.points[1]), PointResult(plan.points[1], "ok"), {})
    whole = json.loads((folder / "summary.json").read_text())
    assert (whole["status"], whole["reason"], whole["launches_ok"]) == ("ok", "", 3)


def test_a_full_disk_ends_the_sweep_with_a_line_that_says_how_to_go_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = SweepStore.finish, []

    def full(self: SweepStore, *arguments: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", "/disk/summary.json")
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SweepStore, "finish", full)
    with pytest.raises(UsageError) as caught:
        run(plan_of(seed=[0, 1, 2]), {})
    root = tmp_path / "sweep"
    assert str(caught.value).startswith("/disk/summary.json: No space left on device: seed-1 could not be stored; ")
    assert str(caught.value).endswith(f"make room, then go on with: perf sweep --resume --out {root}")
    assert not (root / "sweep.lock").exists()
    # AND afterwards it goes on
    outcome, _, launcher = run(plan_of(seed=[0, 1, 2]), {})
    assert (launcher.started, outcome.num_ok) == ([1, 2], 3)


@pytest.mark.parametrize(
    ("step", "what"), [("sync", "the tables of all points"), ("write_summary", "the table of all points")]
)
def test_a_disk_that_is_full_before_or_behind_the_points_says_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, what: str
) -> None:
    with monkeypatch.context() as full:
        full.setattr(DataSet, step, lambda *_: no_room())
        with pytest.raises(UsageError) as caught:
            run(plan_of(seed=[0, 1]), {})
    root = tmp_path / "sweep"
    assert str(caught.value) == (
        f"/disk/x: No space left on device: {what} could not be stored;"
        f" make room, then go on with: perf sweep --resume --out {root}"
    )
    assert not (root / "sweep.lock").exists()
    assert run(plan_of(seed=[0, 1]), {})[0].num_ok == 2


def test_a_plan_that_cannot_be_written_leaves_nothing_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.experiments.store.write_atomically", lambda *_: no_room())
    plan = tmp_path / "sweep" / "plan.json"
    with pytest.raises(UsageError) as caught:
        SweepStore.create(tmp_path / "sweep", plan_of(seed=[0]))
    told = f"{plan}: cannot be written (No space left on device); make room there, or choose another folder with --out"
    assert str(caught.value) == told
    assert not plan.exists()


def no_room() -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "/disk/x")


def test_a_worker_that_meets_a_full_disk_ends_the_sweep(run: Run) -> None:
    with pytest.raises(UsageError, match=r"seed-1 could not be stored: it was disk; make room"):
        run(plan_of(seed=[0, 1, 2]), {1: "disk"})


def test_a_driver_whose_lock_was_taken_over_stores_nothing(run: Run, tmp_path: Path) -> None:
    class Thief(Obedient):
        def wait(self, timeout_s: float) -> list[TaskDone]:
            (tmp_path / "sweep" / "sweep.lock").unlink()
            return super().wait(timeout_s)

    store = SweepStore.create(tmp_path / "sweep", plan_of(seed=[0, 1]))
    with pytest.raises(UsageError, match="was taken over by another process"):
        run_sweep(store, Watch(), lambda scratch: Thief(scratch, {}))
    assert store.done() == []


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"max_failures": 0}, "--max-failures: 0 is too small"),
        ({"timeout_s": 0.0}, "--timeout: 0.0 is no time limit"),
        ({"timeout_s": float("nan")}, "--timeout: nan is no time limit"),
        ({"timeout_s": float("inf")}, "--timeout: inf is no time limit"),
    ],
)
def test_impossible_rules_are_refused(rule: dict[str, float], words: str) -> None:
    given = {"max_failures": None, "skip_dominated": False, "timeout_s": None, "allow_mixed": False, **rule}
    with pytest.raises(UsageError, match=words):
        stop_rules(**given)  # type: ignore[arg-type]


def test_points_that_are_skipped_one_after_another_do_not_stop_the_heart(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN many points that are larger than the first, which has no memory
    beats: list[int] = []
    monkeypatch.setattr(sweep_module.SweepLock, "beat", lambda lock: beats.append(1))
    tree = {**BASE, "points": [{"seed": 7, "table_width": width} for width in range(512, 532)]}
    _, watch, _ = run(make_plan([("mine.yaml", tree)], {}), {7: "oom"}, SweepOptions(skip_dominated=True))
    # THEN each of them beats
    assert [result.status for result in watch.results].count("skipped") == 19
    assert len(beats) >= 20


def test_a_sweep_is_opened_with_a_beat_for_each_of_its_points(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[int] = []
    run(plan_of(seed=list(range(9))), {})
    monkeypatch.setattr(sweep_module.SweepLock, "beat", lambda lock: beats.append(1))
    run(plan_of(seed=list(range(9))), {})
    assert len(beats) >= 9
