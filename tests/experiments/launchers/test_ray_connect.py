"""The way into a cluster, with a Ray made by hand: what stands in it is one line."""

import socket
import sys
from types import ModuleType, SimpleNamespace

import pytest
from stepscope.errors import MeasurementError, UsageError
from stepscope.experiments.launchers import ray_cluster
from stepscope.experiments.launchers.cluster import WorkerLostError
from stepscope.experiments.launchers.ray_connect import connect
from stepscope.experiments.launchers.ray_worker import RayWorker


class Ray(ModuleType):
    """As much of Ray as the door needs. `nodes_` are resources by node; `refuses` is raised by init."""

    def __init__(self, nodes, gcs, refuses=None, connected=False):
        super().__init__("ray")
        self.nodes_, self.gcs, self.refuses, self.connected = nodes, gcs, refuses, connected
        self.shut, self.asked = False, []

    def is_initialized(self):
        return self.connected

    def init(self, **options):
        if self.refuses is not None:
            raise self.refuses
        self.connected = True

    def shutdown(self):
        self.shut, self.connected = True, False

    def get_runtime_context(self):
        return SimpleNamespace(gcs_address=self.gcs)

    def nodes(self):
        return [{"Alive": alive, "Resources": resources} for alive, resources in self.nodes_]

    def available_resources(self):
        return {"GPU": 1.0}

    def remote(self, kind):
        def options(**needs):
            self.asked.append(needs)
            return SimpleNamespace(remote=lambda work: (kind.__name__, work))

        return SimpleNamespace(options=options)

    def get(self, call, timeout):
        raise call


class RayError(Exception):
    pass


@pytest.fixture
def listening():
    """An address where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def install(monkeypatch, listening):
    def put(nodes=((True, {"GPU": 2.0, "CPU": 4.0}),), **more):
        ray = Ray(nodes, listening, **more)
        errors, worker = ModuleType("ray.exceptions"), ModuleType("ray._private.worker")
        errors.RayError = RayError
        for name, module in {"ray": ray, "ray.exceptions": errors, "ray._private.worker": worker}.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        return ray

    return put


def test_a_worker_takes_a_whole_gpu_and_is_never_started_again(install, listening):
    ray = install()
    cluster = connect(listening, needs_gpu=True, work="a:b")
    assert (cluster.unit, cluster.capacity()) == ("GPU", 2)
    assert cluster.spawn() == ("RayWorker", "a:b")
    assert ray.asked == [{"num_cpus": 1, "num_gpus": 1, "max_restarts": 0, "max_task_retries": 0}]
    cluster.close()
    assert ray.shut


def test_without_gpus_a_worker_takes_a_processor(install, listening):
    ray = install([(True, {"CPU": 3.0})])
    cluster = connect(listening, needs_gpu=False)
    assert (cluster.unit, cluster.capacity()) == ("CPU", 3)
    cluster.spawn()
    assert ray.asked[0]["num_gpus"] == 0


def test_only_what_is_whole_on_a_living_node_counts(install, listening):
    half = {"GPU": 0.5, "CPU": 8.0}
    install([(True, half), (True, half), (True, {"GPU": 8.0, "CPU": 3.0}), (False, {"GPU": 8.0, "CPU": 8.0})])
    assert connect(listening, needs_gpu=True).capacity() == 3


@pytest.mark.parametrize(
    ("nodes", "needs_gpu", "says"),
    [
        ([(True, {"CPU": 4.0})], True, r"ask for cuda, and .* has 1 nodes with 0 GPUs and 4 CPUs, .*--num-gpus"),
        ([(True, {"GPU": 4.0})], True, r"no worker fits: each needs a whole GPU and a CPU; .* 1 nodes with 4 GPUs"),
        ([], False, r"no worker fits: each needs a whole CPU and a CPU; .* has 0 nodes"),
    ],
)
def test_a_cluster_that_lacks_what_is_needed(install, listening, nodes, needs_gpu, says):
    ray = install(nodes)
    with pytest.raises(UsageError, match=says):
        connect(listening, needs_gpu=needs_gpu)
    assert ray.shut


def test_a_connection_that_is_there_already_stays(install):
    ray = install(connected=True)
    connect(None, needs_gpu=True).close()
    assert not ray.shut


VERSIONS = (
    "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\nThis process on node"
    " 10.0.0.1 was started with:\n    Ray: 2.60.0\n    Python: 3.12.1\n"
)


@pytest.mark.parametrize(
    ("address", "error", "says"),
    [
        (None, ConnectionError("Could not find any running Ray instance."), "this machine is no node of a"),
        ("here", RuntimeError(VERSIONS), r"Python: 3\.11\.7 This .* Python: 3\.12\.1; run the driver with"),
        ("here", ValueError("odd\nthing"), r"the cluster at 127\.0\.0\.1:\d+ cannot be joined: odd thing$"),
    ],
)
def test_a_cluster_that_cannot_be_joined(install, listening, address, error, says):
    ray = install(refuses=error)
    with pytest.raises(UsageError, match=f"^--launcher ray: .*{says}") as caught:
        connect(listening if address else None, needs_gpu=True)
    assert "\n" not in str(caught.value)
    assert ray.shut


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:1", r"--address 127\.0\.0\.1:1: nobody answers there \(Connection refused\)"),
        ("ray://127.0.0.1:1", r"--address ray://127\.0\.0\.1:1: is Ray Client's; run the driver on a node"),
        ("cluster", r"nobody answers there \(no host:port\)"),
    ],
)
def test_an_address_where_nobody_listens(install, address, says):
    install(refuses=AssertionError("Ray would have tried for a minute"))
    with pytest.raises(UsageError, match=says):
        connect(address, needs_gpu=True)


def test_a_head_that_falls_silent_is_given_a_while(install, listening, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(ray_cluster.time, "monotonic", lambda: now[0])
    ray = install()
    cluster = connect(listening, needs_gpu=True)
    cluster._head_answers = lambda: False
    ray.nodes_ = ()
    now[0] = ray_cluster.HEAD_LIMIT_S
    assert cluster.capacity() == 2  # what it had when it spoke last
    now[0] += 1
    with pytest.raises(MeasurementError, match=r"the head of the Ray cluster at 127\.0\.0\.1:\d+ is silent for 30 s"):
        cluster.capacity()


def test_what_a_lost_call_raises(install, listening):
    install()
    cluster = connect(listening, needs_gpu=True)
    with pytest.raises(WorkerLostError, match="NodeDied"):
        cluster.result(type("NodeDiedError", (RayError,), {})("NodeDied"))


def test_a_worker_sees_its_gpu_where_ray_does_not_say_it(install, monkeypatch, tmp_path):
    """GIVEN Ray is told to leave CUDA_VISIBLE_DEVICES alone THEN the worker's process sees the GPU that Ray gave it."""
    ray = install()
    context = SimpleNamespace(get_node_id=lambda: "n1", get_accelerator_ids=lambda: {"GPU": ["3"], "TPU": []})
    ray.get_runtime_context, ray.__version__ = (lambda: context), "2.60.0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    monkeypatch.setattr("stepscope.experiments.launchers.remote_worker.tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    hello = RayWorker().hello()
    assert (hello["device"], hello["gpus"], hello["node"], hello["ray"]) == ("3", ["3"], "n1", "2.60.0")


def test_a_folder_named_ray_is_not_ray(tmp_path, monkeypatch):
    """Ray keeps its files in /tmp/ray: whoever works in /tmp has a package of that name, without anything in it."""
    (tmp_path / "ray").mkdir()
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(UsageError, match=r"needs Ray \(No module named 'ray\.exceptions'\); install it"):
        connect(None, needs_gpu=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
