"""A worker process: what it brings back, and what its driver makes of every way in which it can end."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stepscope.experiments.launches import tasks
from stepscope.experiments.plan import make_plan
from stepscope.experiments.workers import process as process_module
from stepscope.experiments.workers.launcher import Workers
from stepscope.experiments.workers.process import WorkerProcess
from stepscope.experiments.workers.task import Outcome, Task, TaskDone

WORKERS = Path(__file__).parent
LIMIT_S = 60.0


def tasks_of(count: int, timeout_s: float | None = None) -> list[Task]:
    tree = {"workload": {"regime": "steady"}, "device": "sim", "grid": {"seed": list(range(count))}}
    return tasks(make_plan([("t", tree)], {}).points, timeout_s=timeout_s)


Make = Callable[..., Workers]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """`make({seed: deed})`: one worker that does the deeds of odd_work."""
    made = []

    def call(deeds: dict[int, str] | None = None, work: str = "odd_work:work") -> Workers:
        path = os.pathsep.join([str(WORKERS), os.environ.get("PYTHONPATH", "")])
        environ = {"PYTHONPATH": path, "STEPSCOPE_DEEDS": json.dumps(deeds or {}), "OMP_NUM_THREADS": "1"}
        made.append(Workers([WorkerProcess(tmp_path / "scratch", work=work, environ=environ)]))
        return made[-1]

    yield call
    for launcher in made:
        launcher.close()


def ended(launcher: Workers) -> TaskDone:
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        found = launcher.wait(1.0)
        if found:
            return found[0]
    raise AssertionError("the task did not end")


def run(launcher: Workers, task: Task) -> Outcome:
    launcher.start(task)
    (outcome,) = ended(launcher).outcomes
    return outcome


def test_a_warm_worker_takes_one_task_after_the_other(make: Make, tmp_path: Path) -> None:
    launcher = make()
    first, second = tasks_of(2)
    one, other = run(launcher, first), run(launcher, second)
    assert (one.status, one.kind, one.reason, one.wall_s) == ("ok", "", "", 0.25)
    assert one.record["pid"] == other.record["pid"] != os.getpid()
    assert one.folder is not None
    assert (one.folder / "recording" / "rows.txt").read_text() == "rows"
    launcher.close()
    assert list(tmp_path.iterdir()) == []


def test_what_was_measured_says_where(make: Make) -> None:
    launcher = make()
    launcher.start(tasks_of(1)[0])
    worker = ended(launcher).worker
    assert set(worker) == {"host", "pid", "device", "identity"}
    assert worker["identity"]["engine"]


@pytest.mark.parametrize(
    ("deed", "kind", "words"),
    [
        ("segfault", "crash", "the worker died of SIGSEGV; its last words: "),
        ("kill", "killed", "the worker was killed (SIGKILL)"),
        ("exit", "exit", "the worker ended with 7 and no result"),
        ("poison", "garbage", "the worker sent what is no message: expected a message, got b'not a message at all"),
        ("oom", "oom", "MemoryError: Unable to allocate 8. TiB"),
    ],
)
def test_a_failure_has_a_class_and_the_next_task_a_new_process(make: Make, deed: str, kind: str, words: str) -> None:
    # GIVEN a point that ends badly, behind one that harms nothing
    launcher = make({0: "invalid", 1: deed})
    harmless, first, second = tasks_of(3)
    refused = run(launcher, harmless)
    assert (refused.kind, refused.reason) == ("invalid", "runner.block_size: 0 is too small")
    warm = launcher._workers[0]._facts["pid"]
    failed = run(launcher, first)
    # THEN its class and one line say how, and the point behind it is measured in another process
    assert (failed.status, failed.kind) == ("failed", kind)
    assert words in failed.reason
    assert "\n" not in failed.reason
    after = run(launcher, second)
    assert (after.status, after.record["pid"] != warm) == ("ok", True)


def test_what_a_library_prints_is_kept_and_harms_nothing(make: Make) -> None:
    launcher = make({0: "scream"})
    launcher.start(tasks_of(1)[0])
    done = ended(launcher)
    assert done.outcomes[0].status == "ok"
    assert "garbage on stdout" in done.worker["output"]
    assert "garbage on descriptor 1" in done.worker["output"]


def test_a_hanging_point_is_ended_by_its_limit(make: Make) -> None:
    launcher = make({0: "hang"})
    first, second = tasks_of(2, timeout_s=0.5)
    failed = run(launcher, first)
    assert (failed.kind, failed.reason) == ("timeout", "took longer than 0.5 s (--timeout)")
    assert 0.5 <= failed.wall_s < 10
    assert run(launcher, second).status == "ok"


def test_a_worker_that_does_not_come_up_gives_the_reason(make: Make) -> None:
    failed = run(make(work="odd_work:no_such_work"), tasks_of(1)[0])
    assert failed.kind == "exit"
    assert "no_such_work" in failed.reason


def test_the_launches_of_a_point_and_fresh_tasks_have_processes_of_their_own(make: Make) -> None:
    tree = {"workload": {"regime": "steady"}, "device": "sim", "measure": {"repeats": 2}}
    launcher = make()
    first, second = tasks(make_plan([("t", tree)], {}).points)
    assert run(launcher, first).record["pid"] != run(launcher, second).record["pid"]


def test_an_interrupted_worker_stops_at_its_next_step(make: Make) -> None:
    launcher = make(work="odd_work:sleep_until_interrupted")
    launcher.start(tasks_of(1)[0])
    until_s = time.monotonic() + LIMIT_S
    while not launcher._workers[0]._facts and time.monotonic() < until_s:  # until it said hello
        launcher.wait(0.1)
    launcher.interrupt()
    assert [one.status for one in ended(launcher).outcomes] == ["interrupted"]


def test_an_interrupted_worker_that_hangs_is_killed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "GRACE_S", 0.2)
    launcher = make({0: "hang"})
    launcher.start(tasks_of(1)[0])
    launcher.wait(0.1)
    launcher.interrupt()
    assert [one.status for one in ended(launcher).outcomes] == ["interrupted"]


def test_a_worker_ends_with_its_driver(make: Make, tmp_path: Path) -> None:
    # GIVEN a driver in a process of its own, killed while its worker hangs
    code = (
        "import json, sys, time\n"
        "from pathlib import Path\n"
        "from stepscope.experiments.workers.process import WorkerProcess\n"
        "from stepscope.experiments.workers.task import Task\n"
        "worker = WorkerProcess(Path(sys.argv[1]), work='odd_work:work')\n"
        "worker.start(Task.from_json(json.loads(sys.argv[2])))\n"
        "while not worker._facts or worker.due_s is not None: worker.poll(); time.sleep(0.01)\n"
        "print(worker._facts['pid'], flush=True)\n"
        "time.sleep(600)\n"
    )
    path = os.pathsep.join([str(WORKERS), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": path, "STEPSCOPE_DEEDS": json.dumps({0: "hang"})}
    task = json.dumps(tasks_of(1)[0].to_json())
    driver = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), task], stdout=subprocess.PIPE, text=True, env=environ
    )
    assert driver.stdout is not None
    pid = int(driver.stdout.readline())
    driver.kill()
    driver.wait()
    driver.stdout.close()
    # THEN the worker is gone as well
    until_s = time.monotonic() + 10
    while running(pid) and time.monotonic() < until_s:
        time.sleep(0.01)
    survived = running(pid)
    if survived:
        os.kill(pid, signal.SIGKILL)
    assert not survived


def running(pid: int) -> bool:
    """Whether there is such a process, a zombie not counted."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize(("number", "kind"), [(errno.EAGAIN, "error"), (errno.ENOSPC, "disk"), (errno.ENOMEM, "error")])
def test_a_process_that_cannot_be_made_fails_its_point_only(
    make: Make, monkeypatch: pytest.MonkeyPatch, number: int, kind: str
) -> None:
    # GIVEN a host without room for a process WHEN a task is given out
    launcher = make()
    first, second = tasks_of(2)
    with monkeypatch.context() as crowded:
        crowded.setattr(process_module.subprocess, "Popen", lambda *_, **__: refuse(number))
        launcher.start(first)
        assert launcher.free() == 0
        (outcome,) = ended(launcher).outcomes
    # THEN its point failed for that reason, and the next one gets its process
    assert (outcome.status, outcome.kind) == ("failed", kind)
    assert outcome.reason.startswith("no worker process could be started: ")
    assert run(launcher, second).status == "ok"


def refuse(number: int) -> None:
    raise OSError(number, os.strerror(number))
