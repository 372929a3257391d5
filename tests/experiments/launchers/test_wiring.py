"""From the options of a command line to workers: what goes together, and what is refused."""

import sys
from types import SimpleNamespace

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.launchers import wiring as module
from stepscope.experiments.launchers.local import find_gpus, local_workers
from stepscope.experiments.launchers.wiring import LaunchOptions, make_launcher
from stepscope.experiments.plan import make_plan
from stepscope.instrumentation.visible import Gpu

GPUS = (Gpu("GPU-1", "GPU-1"), Gpu("GPU-2", "GPU-2"))
CUDA = {"workload": {"regime": "steady"}, "device": "cuda"}


@pytest.fixture
def points(plan_of):
    return plan_of(2).points


@pytest.fixture
def cuda_points():
    return make_plan([("t", CUDA)], {}, elsewhere=True).points


@pytest.fixture
def locks():
    """Locks that note what they were asked for."""
    taken = []
    return SimpleNamespace(taken=taken, take=taken.extend, release=taken.clear)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (LaunchOptions("slurm"), r"--launcher: 'slurm' is unknown; give one of local, ray"),
        (LaunchOptions(workers=0), r"--workers: 0 is too small; at least 1"),
        (LaunchOptions(address="h:1"), r"--address: is a Ray cluster's; add --launcher ray"),
    ],
)
def test_options_that_mean_nothing(options, says, points):
    with pytest.raises(UsageError, match=says):
        make_launcher(options, points)


@pytest.mark.parametrize("options", [LaunchOptions("ray"), LaunchOptions(workers=2)])
def test_launches_that_take_turns_stay_on_one_device(options):
    tree = {
        "workload": {"regime": "steady", "scheduler": {"reserve_output": True}}, "device": "cpu",
        "measure": {"interleave": "commit_order", "resident": True, "repeats": 2},
        "grid": {"commit_order": ["first", "last"]},
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"measure\.resident: its launches take turns on one device of this host"):
        make_launcher(options, make_plan([("t", tree)], {}).points)


def test_one_worker_where_there_is_no_gpu(tmp_path, points):
    workers = make_launcher(LaunchOptions(), points)(tmp_path)
    assert workers.free() == 1
    workers.close()


def test_so_many_workers_on_devices_without_gpus(tmp_path, points):
    workers = make_launcher(LaunchOptions(workers=3), points)(tmp_path)
    assert workers.free() == 3
    workers.close()


def test_a_worker_for_each_gpu(tmp_path, locks):
    workers = local_workers(tmp_path, gpus=GPUS, locks=locks)
    assert workers.free() == 2
    assert [one._environ for one in workers._workers] == [
        {"CUDA_VISIBLE_DEVICES": "GPU-1"},
        {"CUDA_VISIBLE_DEVICES": "GPU-2"},
    ]
    assert locks.taken == list(GPUS)
    workers.close()
    assert locks.taken == []


def test_fewer_workers_take_fewer_gpus(tmp_path, locks):
    assert local_workers(tmp_path, gpus=GPUS, count=1, locks=locks).free() == 1
    assert locks.taken == [GPUS[0]]


def test_more_workers_than_gpus(tmp_path):
    with pytest.raises(UsageError, match="--workers: 3 is too many; this host has 2 GPUs, and each worker gets one"):
        local_workers(tmp_path, gpus=GPUS, count=3)


def test_gpus_that_cannot_be_counted_leave_one_worker(tmp_path, cuda_points, monkeypatch):
    """One worker gets what CUDA gives it; two would not know which GPU is whose."""

    def refuse():
        raise UsageError("NVML is not there")

    monkeypatch.setattr(module, "find_gpus", refuse)
    workers = make_launcher(LaunchOptions(), cuda_points)(tmp_path)
    assert (workers.free(), workers._workers[0]._environ) == (1, {})
    with pytest.raises(UsageError, match="NVML is not there"):
        make_launcher(LaunchOptions(workers=2), cuda_points)


def test_every_gpu_of_the_host(tmp_path, cuda_points, monkeypatch):
    monkeypatch.setattr(module, "find_gpus", lambda: GPUS)
    monkeypatch.setattr("stepscope.experiments.launchers.gpu_locks.tempfile.gettempdir", lambda: str(tmp_path))
    workers = make_launcher(LaunchOptions(), cuda_points)(tmp_path)
    assert workers.free() == 2
    workers.close()


def fake_nvml(uuids):
    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(uuids),
        nvmlDeviceGetHandleByIndex=lambda index: uuids[index],
        nvmlDeviceGetUUID=lambda handle: handle,
    )


def test_the_gpus_of_nvml(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert find_gpus(lambda: fake_nvml(["GPU-1", "GPU-2"])) == GPUS


@pytest.mark.parametrize(
    ("visible", "says"),
    [
        ("", "no GPU is left for workers; CUDA_VISIBLE_DEVICES hides them all"),
        ("GPU-9", "CUDA_VISIBLE_DEVICES names GPU-9, which this host has not; mend the variable"),
    ],
)
def test_no_gpu_that_workers_may_have(monkeypatch, visible, says):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(UsageError, match=says):
        find_gpus(lambda: fake_nvml(["GPU-1"]))


def test_a_driver_that_does_not_answer():
    def load():
        raise OSError("libnvidia-ml.so.1:\ncannot open")

    with pytest.raises(UsageError, match=r"cannot be counted through NVML: libnvidia-ml.so.1: cannot open"):
        find_gpus(load)


def test_ray_that_is_not_installed(tmp_path, points, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"--launcher ray: needs Ray .*; install it: pip install 'stepscope\[ray\]'"):
        make_launcher(LaunchOptions("ray"), points)(tmp_path)
