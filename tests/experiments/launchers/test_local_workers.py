"""Two workers of this host, for real: each has a GPU of its own, and no two points ever share one."""

import itertools

from stepscope.experiments.launchers.gpu_locks import GpuLocks
from stepscope.experiments.launchers.local import local_workers
from stepscope.experiments.observer import Unwatched
from stepscope.experiments.store import SweepStore
from stepscope.experiments.sweep import run_sweep
from stepscope.instrumentation.visible import Gpu


def test_every_gpu_measures_one_point_at_a_time(tmp_path, plan_of, point_runners, monkeypatch):
    """GIVEN two GPUs THEN both work at once, every worker sees its own alone, and its points follow one another."""
    monkeypatch.setenv("STEPSCOPE_SLEEP_S", "0.05")
    gpus, locks = (Gpu("GPU-1", "GPU-1"), Gpu("GPU-2", "GPU-2")), GpuLocks(tmp_path)
    store = SweepStore.create(tmp_path / "sweep", plan_of(20))

    def workers(scratch):
        return local_workers(scratch, gpus=gpus, work="point_runners:sleep", locks=locks)

    assert run_sweep(store, Unwatched(), workers).num_ok == 20
    spans = {"GPU-1": [], "GPU-2": []}
    pids = {"GPU-1": set(), "GPU-2": set()}
    for point in store.plan.points:
        record = store.record(point)
        spans[record["gpu"]].append((record["began_s"], record["ended_s"]))
        pids[record["gpu"]].add(record["pid"])
    assert [len(one) for one in pids.values()] == [1, 1]
    for of_gpu in spans.values():
        assert all(began >= ended for (_, ended), (began, _) in itertools.pairwise(sorted(of_gpu)))
    both = [sorted(of_gpu) for of_gpu in spans.values()]
    assert any(a < d and c < b for (a, b), (c, d) in itertools.product(*both))
    GpuLocks(tmp_path).take(gpus)  # the GPUs were given back
