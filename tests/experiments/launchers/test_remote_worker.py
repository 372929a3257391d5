"""A worker on another machine, on this one: what it says of itself, what it sends, and what it leaves behind."""

import os
from types import SimpleNamespace

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.identity import source_digest
from stepscope.experiments.launchers import remote_worker as module
from stepscope.experiments.launchers.remote_worker import RemoteWorker, namespace, remove_leftovers
from stepscope.experiments.launchers.reply import Reply
from stepscope.experiments.workers.process import WorkerProcess


@pytest.fixture
def worker_of(tmp_path, monkeypatch):
    """`worker_of(work)`; its processes end with the test."""
    made = []

    def make(work=None):
        made.append(RemoteWorker(work))
        return made[-1]

    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
    yield make
    for worker in made:
        worker._workers.close()


def test_who_it_is(worker_of, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    hello = worker_of().hello()
    assert (hello["pid"], hello["device"], hello["refused"]) == (os.getpid(), "", "")
    assert hello["identity"]["engine"] == source_digest()


def test_a_gpu_that_is_taken_is_refused(worker_of, monkeypatch):
    """GIVEN a GPU that another job of the host measures on THEN the worker says so, and nobody uses it."""

    def taken(locks, gpus):
        raise UsageError(f"{gpus[0].uuid}: process 7 measures on this GPU")

    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
    )
    monkeypatch.setattr(module.importlib, "import_module", lambda name: nvml)
    monkeypatch.setattr(module.GpuLocks, "take", taken)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert worker_of()._refused == "GPU-3: process 7 measures on this GPU"


def test_a_gpu_that_is_only_declared_needs_no_lock(worker_of, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setattr(module.importlib, "import_module", lambda name: SimpleNamespace())
    assert worker_of()._refused == ""


def test_points_come_back_as_plain_data_and_leave_no_files(worker_of, tasks_of, point_runners, tmp_path):
    worker = worker_of("point_runners:no_op")
    pids = set()
    for task in tasks_of(2):
        reply = Reply.from_plain(worker.run(task.to_json()))
        (outcome,) = reply.outcomes
        assert (outcome.status, outcome.folder) == ("ok", None)
        assert reply.files == {outcome.key: {"recording/rows.bin": b"rows"}}
        assert reply.worker["identity"]["engine"] == source_digest()
        pids.add(outcome.record["pid"])
    assert len(pids) == 1  # the process stays warm
    assert [path.name for path in tmp_path.rglob("task-*")] == []


def test_no_process_can_be_made(worker_of, tasks_of, monkeypatch):
    def refuse(worker, task):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(WorkerProcess, "start", refuse)
    (outcome,) = Reply.from_plain(worker_of().run(tasks_of(1)[0].to_json())).outcomes
    assert (outcome.status, outcome.reason) == ("failed", "OSError: [Errno 12] Cannot allocate memory")


def test_what_killed_workers_left_is_removed(tmp_path):
    here = namespace()
    dead, alive, elsewhere = (
        f"stepscope-worker-11-{here}-abc",
        f"stepscope-worker-22-{here}-d",
        "stepscope-worker-11-1-e",
    )
    for name in (dead, alive, elsewhere, "stepscope-worker-x-y", "another-33-ghi"):
        (tmp_path / name / "task-0").mkdir(parents=True)
    remove_leftovers(tmp_path, alive=lambda pid: pid == 22)
    left = sorted(path.name for path in tmp_path.iterdir())
    # a number says nothing about processes of another container
    assert left == ["another-33-ghi", elsewhere, alive, "stepscope-worker-x-y"]
    remove_leftovers(tmp_path)
    assert not (tmp_path / alive).exists() or os.path.exists("/proc/22")
