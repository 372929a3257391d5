"""`perf sweep --launcher ray` as a process of its own: what it writes, and what its death, or the head's, leaves.

On a real cluster of three nodes, as test_ray_sweep.py; passed over by the suite.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.skipif("STEPSCOPE_RAY" not in os.environ, reason="takes minutes; STEPSCOPE_RAY=1 (make ray-tests)"),
]
SPEC = """
workload: {{regime: steady, settings: {{num_reqs: 4}}}}
runner: {{max_model_len: 256, num_blocks: 128, model: micro}}
device: sim
measure: {{steps: 4}}
grid: {{measure.settle_steps: {numbers}}}
"""
LIMIT_S = 240.0
TIMED = ("queued",)
"""What depends on measured times, and may be equal in two sweeps by chance."""


@pytest.fixture(scope="module")
def make_nodes():
    """`make_nodes()`: a cluster of three nodes with five GPUs, and its address."""
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs Ray: pip install 'stepscope[ray]'")
    made = []

    def make():
        small = {"object_store_memory": 100 << 20}
        cluster = cluster_utils.Cluster(
            initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1, "include_dashboard": False, **small}
        )
        for _ in range(2):
            cluster.add_node(num_cpus=2, num_gpus=2, **small)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.shutdown()


@pytest.fixture(scope="module")
def nodes(make_nodes):
    return make_nodes()


@pytest.fixture
def spec(tmp_path):
    """`spec(n)`: a file of n small points."""

    def write(count: int) -> Path:
        path = tmp_path / "spec.yaml"
        path.write_text(SPEC.format(numbers=list(range(count))))
        return path

    return write


class Perf:
    """A `perf` process, and the lines that it has said on stderr."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "stepscope", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []

    def until(self, points: int) -> None:
        """Reads until so many points have ended."""
        for line in self.process.stderr:
            self.said.append(line.rstrip())
            if line.startswith(f"[{points}/") or line.lstrip("[ ").startswith(f"{points}/"):
                return
        raise AssertionError(self.said)

    def end(self) -> tuple[int, str]:
        """Exit code and stdout."""
        out, rest = self.process.communicate(timeout=LIMIT_S)
        self.said += rest.splitlines()
        return self.process.returncode, out


def ray_sweep(spec: Path, out: Path, cluster, *more: object) -> Perf:
    return Perf("sweep", spec, "--out", out, "--launcher", "ray", "--address", cluster.address, *more)


def summaries(out: Path) -> dict[str, dict]:
    return {path.parent.name: json.loads(path.read_text()) for path in (out / "points").glob("*/summary.json")}


def tables(out: Path) -> dict[str, object]:
    """Rows of the sweep's Parquet data set, by table, in the order of their points."""
    found = {}
    for folder in sorted((out / "tables").iterdir()):
        table = pq.read_table(folder)
        keys = [name for name in ("point", "step") if name in table.column_names]
        found[folder.name] = table.sort_by([(name, "ascending") for name in keys])
    return found


def test_the_same_parquet_as_local(nodes, spec, tmp_path):
    """GIVEN one plan measured here twice and on the cluster once THEN what the two share, the third has."""
    path = spec(3)
    for name in ("one", "two"):
        assert Perf("sweep", path, "--out", tmp_path / name).end()[0] == 0
    run = ray_sweep(path, tmp_path / "ray", nodes)
    assert run.end()[0] == 0, run.said
    one, two, there = (tables(tmp_path / name) for name in ("one", "two", "ray"))
    assert sorted(one) == sorted(there)
    compared = 0
    for name, table in one.items():
        assert there[name].schema.equals(table.schema), name
        assert there[name].num_rows == table.num_rows, name
        for column in table.column_names:
            if column not in TIMED and table.column(column).equals(two[name].column(column)):
                assert there[name].column(column).equals(table.column(column)), f"{name}.{column}"
                compared += 1
    assert compared > 60
    files = [sorted(p.name for p in (tmp_path / name / "points").rglob("*.parquet")) for name in ("one", "ray")]
    assert files[0] == files[1]
    assert len(files[0]) >= 30


def test_a_killed_driver_loses_what_was_in_flight_and_no_more(nodes, spec, tmp_path):
    out, path = tmp_path / "sweep", spec(16)
    first = ray_sweep(path, out, nodes)
    first.until(5)
    os.kill(first.process.pid, signal.SIGKILL)
    first.end()
    kept = summaries(out)
    assert len(kept) >= 5
    second = Perf("sweep", "--resume", "--out", out, "--launcher", "ray", "--address", nodes.address)
    assert second.end()[0] == 0, second.said
    assert f"16 points, {len(kept)} measured before" in second.said
    found = summaries(out)
    assert len(found) == 16
    assert {name: found[name] for name in kept} == kept


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_at_once_and_gives_the_gpus_back(nodes, spec, tmp_path):
    out = tmp_path / "sweep"
    run = ray_sweep(spec(40), out, nodes, "--workers", 2)
    run.until(2)
    began_s = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    code, _ = run.end()
    assert (code, time.monotonic() - began_s < 30) == (130, True), run.said
    assert run.said[-1].startswith("perf: interrupted: ")
    assert "go on with: perf sweep --resume" in run.said[-1]
    second = Perf("sweep", "--resume", "--out", out, "--launcher", "ray", "--address", nodes.address)
    assert second.end()[0] == 0


def test_a_gpu_that_no_node_has(make_nodes, nodes, spec, tmp_path):
    """`auto` is nobody's to decide; and a real GPU behind a declared one is the worker's to miss, point by point."""
    run = ray_sweep(spec(1), tmp_path / "a", nodes, "--device", "auto")
    assert run.end()[0] == 2
    assert "device: auto is decided by the machine at hand" in run.said[-1]
    run = ray_sweep(spec(1), tmp_path / "b", nodes, "--device", "cuda")
    assert run.end()[0] == 3
    assert "FAILED" in " ".join(run.said)


def test_a_dead_head_ends_the_sweep_and_says_how_to_go_on(make_nodes, spec, tmp_path):
    cluster, out = make_nodes(), tmp_path / "sweep"
    address = cluster.address
    run = ray_sweep(spec(300), out, cluster, "--workers", 1)
    run.until(3)
    cluster.head_node.kill_gcs_server()
    code, _ = run.end()
    assert code == 3, run.said
    (line,) = [line for line in run.said if line.startswith("perf: ")]
    assert f"the head of the Ray cluster at {address} is silent for 30 s" in line
    assert f"points are kept in {out}; go on with: perf sweep --resume --out {out}" in line
    assert len(summaries(out)) >= 3
