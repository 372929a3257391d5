"""Sweeps on a real Ray cluster: three nodes on this machine that declare five GPUs. `make ray-tests` runs these.

They need Ray (`pip install 'stepscope[ray]'`) and two minutes, so that the suite passes them over.
"""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest
from stepscope.errors import MeasurementError, UsageError
from stepscope.experiments.launchers import fleet
from stepscope.experiments.launchers.ray_connect import connect
from stepscope.experiments.launchers.wiring import LaunchOptions, make_launcher
from stepscope.experiments.observer import Unwatched
from stepscope.experiments.store import SweepStore
from stepscope.experiments.sweep import run_sweep

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.skipif("STEPSCOPE_RAY" not in os.environ, reason="takes minutes; STEPSCOPE_RAY=1 (make ray-tests)"),
]
GPUS = (1, 2, 2)
MEMORY = 100 << 20


class Watcher(Unwatched):
    """Keeps what it is told, and does `then` when so many points have ended."""

    def __init__(self, after: int = -1, then=lambda: None):
        self.results, self._after, self._then = [], after, then

    def point_finished(self, result):
        self.results.append(result)
        if len(self.results) == self._after:
            self._then()


class Nodes:
    """A cluster of its own for a test: the driver's node has the head."""

    def __init__(self, gpus=GPUS):
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 2, "num_gpus": gpus[0], "include_dashboard": False, "object_store_memory": MEMORY,
            },
        )  # fmt: skip
        self.others = [self.add(count) for count in gpus[1:]]
        self.address = self.cluster.address

    def add(self, gpus):
        return self.cluster.add_node(num_cpus=2, num_gpus=gpus, object_store_memory=MEMORY)

    def kill(self, node):
        self.cluster.remove_node(node, allow_graceful=False)

    def close(self):
        import ray

        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def shared_nodes():
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'stepscope[ray]'")
    path = Path(__file__).parents[3] / "benchmarks"
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{path}{os.pathsep}{before}"  # nodes hand their environment to workers
    os.environ["STEPSCOPE_SLEEP_S"] = "0.1"
    nodes = Nodes()
    yield nodes
    nodes.close()


@pytest.fixture
def sweep(tmp_path, plan_of):
    """`sweep(nodes, count, work)`: a store and what became of it; further calls go on with the same folder."""

    def run(nodes, count, work="sleep", watcher=None, **options):
        root = tmp_path / "sweep"
        plan = plan_of(count)
        store = SweepStore.resume(root, plan) if root.exists() else SweepStore.create(root, plan)
        launch = LaunchOptions("ray", address=nodes.address, work=f"point_runners:{work}", **options)
        return store, run_sweep(store, watcher or Unwatched(), make_launcher(launch, plan.points))

    return run


def records(store):
    return [store.record(point) for point in store.plan.points]


def test_each_worker_has_a_gpu_for_itself(shared_nodes, sweep):
    store, outcome = sweep(shared_nodes, 40)
    assert (outcome.num_ok, outcome.num_failed) == (40, 0)
    spans = {}
    for record in records(store):
        (gpu,) = record["worker"]["gpus"]
        assert record["gpu"] == gpu == record["worker"]["device"]  # the process sees it, and nothing else
        spans.setdefault((record["worker"]["node"], gpu), []).append((record["began_s"], record["ended_s"]))
    assert len(spans) == sum(GPUS)
    for of_gpu in spans.values():
        for (_, ended), (began, _) in itertools.pairwise(sorted(of_gpu)):
            assert began >= ended
    assert all(record["environment"]["engine"] for record in records(store))


def test_workers_are_as_many_as_asked_for(shared_nodes, sweep):
    store, _ = sweep(shared_nodes, 8, workers=2)
    assert len({(one["worker"]["node"], one["gpu"]) for one in records(store)}) == 2


def test_files_arrive_without_a_shared_disk(shared_nodes, sweep, monkeypatch):
    """GIVEN results that go through the object store THEN every byte of them is in the driver's folder."""
    store, outcome = sweep(shared_nodes, 6, "megabytes")
    assert outcome.num_ok == 6
    for point in store.plan.points:
        content = (store.folder(point) / "recording" / "rows.bin").read_bytes()
        assert len(content) == 8 << 20
        assert set(content) == {point.spec.workload.seed}


def test_a_pending_worker_says_what_it_waits_for(shared_nodes, tmp_path, plan_of, monkeypatch):
    """GIVEN all GPUs with another job WHEN nobody gives one back THEN the sweep ends, and says why."""
    import ray

    monkeypatch.setattr(fleet, "START_LIMIT_S", 4.0)
    ray.init(address=shared_nodes.address, log_to_driver=False)

    class Holder:
        def held(self):
            return True

    holders = [ray.remote(num_gpus=1, num_cpus=0)(Holder).remote() for _ in range(sum(GPUS))]
    ray.get([holder.held.remote() for holder in holders])
    try:
        store = SweepStore.create(tmp_path / "sweep", plan_of(1))
        launch = make_launcher(LaunchOptions("ray", address=shared_nodes.address), store.plan.points)
        with pytest.raises(MeasurementError, match=r"no worker came within 4 s: .* whole GPU; .* 3 nodes .* 0 GPUs of"):
            run_sweep(store, Unwatched(), launch)
    finally:
        for holder in holders:
            ray.kill(holder)
        ray.shutdown()


def test_a_killed_worker_is_a_failed_point_that_resume_measures(shared_nodes, sweep):
    store, outcome = sweep(shared_nodes, 6, "kill_the_actor", workers=1)
    assert (outcome.num_ok, outcome.num_failed) == (5, 1)
    bad = next(record for record in records(store) if record["status"] != "ok")
    assert bad["kind"] == "killed"
    assert "the worker of Ray was killed" in bad["reason"]
    store, outcome = sweep(shared_nodes, 6, "sleep")
    assert (outcome.num_ok, outcome.num_failed) == (6, 0)


def test_other_versions_are_one_line(shared_nodes, monkeypatch):
    import ray

    monkeypatch.setattr(ray, "__version__", "2.1.0")
    with pytest.raises(UsageError, match=r"cluster was started with: Ray: .* started with: Ray: 2\.1\.0 .* run the"):
        connect(shared_nodes.address, needs_gpu=True)


def test_nobody_at_the_address():
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'stepscope[ray]'")
    began_s = time.monotonic()
    with pytest.raises(UsageError, match=r"--address 127\.0\.0\.1:1: nobody answers there \(Connection refused\)"):
        connect("127.0.0.1:1", needs_gpu=False)
    assert time.monotonic() - began_s < 10


def test_a_node_without_our_code(shared_nodes, tmp_path, plan_of, monkeypatch):
    """GIVEN workers that cannot import us THEN the sweep ends with that, not with a time limit."""
    import ray

    ray.init(address=shared_nodes.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": ""}})
    monkeypatch.setattr(fleet, "LOOK_EVERY_S", 0.5)
    try:
        store = SweepStore.create(tmp_path / "sweep", plan_of(1))
        launch = make_launcher(LaunchOptions("ray", address=shared_nodes.address), store.plan.points)
        with pytest.raises(MeasurementError, match=r"no worker could be started: .*No module named 'stepscope'"):
            run_sweep(store, Unwatched(), launch)
    finally:
        ray.shutdown()


def test_a_lost_node_costs_no_point_and_a_new_one_is_used(shared_nodes, sweep):
    """GIVEN a node that is killed under its points THEN they run elsewhere, once, and their records tell of it."""
    node = shared_nodes.others.pop()
    lost = node.node_id
    watcher = Watcher(12, lambda: shared_nodes.kill(node))
    store, outcome = sweep(shared_nodes, 60, "sleep", watcher)
    assert (outcome.num_ok, outcome.num_failed) == (60, 0)
    assert len({result.point.key for result in watcher.results}) == len(watcher.results) == 60
    again = [record for record in records(store) if "lost" in record["worker"]]
    assert 1 <= len(again) <= 2  # the node had two GPUs
    for record in again:
        assert [one["node"] for one in record["worker"]["lost"]] == [lost]
        assert record["worker"]["lost"][0]["identity"]["engine"] == record["environment"]["engine"]
        assert record["worker"]["node"] != lost
    assert len([one for one in records(store) if one["worker"]["node"] == lost]) >= 1  # of before, and kept
    shared_nodes.others.append(shared_nodes.add(2))
