"""What a sweep costs beside its points: `python benchmarks/sweep_scale.py local` and `... ray` (three nodes, here).

Points are those of point_runners.py and measure nothing; their runner is named in the result. Overhead a point is the
time between the ends of two points, the first quarter left out, less what a point took itself over the number of
workers: the store with all its syncs is in it, the start of workers is not (it stands beside it).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *(entry for entry in sys.path if entry)])

from stepscope.experiments.launchers.wiring import LaunchOptions, make_launcher  # noqa: E402 - workers need the path
from stepscope.experiments.observer import Unwatched  # noqa: E402
from stepscope.experiments.plan import Plan, make_plan  # noqa: E402
from stepscope.experiments.store import SweepStore  # noqa: E402
from stepscope.experiments.sweep import run_sweep  # noqa: E402

NODES = ({"num_cpus": 2, "num_gpus": 1}, {"num_cpus": 2, "num_gpus": 2}, {"num_cpus": 2, "num_gpus": 2})
SLEEP_S = 0.25
Row = dict[str, Any]


class Ends(Unwatched):
    """When each point ended, on disk."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self.wall_s: list[float] = []

    def point_finished(self, result) -> None:
        assert result.status == "ok", result.reason
        self.at_s.append(time.perf_counter())
        self.wall_s.append(result.wall_s)


def plan_of(count: int) -> tuple[Plan, float]:
    """The plan, and the seconds that one point of it took to resolve: each has a workload of its own."""
    tree = {
        "workload": {"regime": "steady", "settings": {"num_reqs": 2, "steps": 4}}, "device": "sim",
        "runner": {"max_model_len": 256, "num_blocks": 64, "model": "micro"}, "measure": {"steps": 2},
        "grid": {"seed": list(range(count))},
    }  # fmt: skip
    began_s = time.perf_counter()
    plan = make_plan([("no-op", tree)], {})
    return plan, (time.perf_counter() - began_s) / count


def sweep(plan: Plan, work: str, workers: int, launcher: str = "local", address: str | None = None) -> Row:
    """One sweep in a new folder; milliseconds."""
    ends, options = Ends(), LaunchOptions(launcher, workers, address, f"point_runners:{work}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("STEPSCOPE_BENCH_DIR")) as folder:
        store = SweepStore.create(Path(folder) / "sweep", plan)
        load, cpu_s, began_s = os.getloadavg()[0], time.process_time(), time.perf_counter()
        run_sweep(store, ends, make_launcher(options, plan.points))
        ended_s, cpu_s = time.perf_counter(), time.process_time() - cpu_s
    steady_s = ends.at_s[len(ends.at_s) // 4 :]  # the first points have fewer workers: the others still start
    gaps = [later - earlier for earlier, later in pairwise(steady_s)]
    own_s = statistics.fmean(ends.wall_s) / workers
    return {
        "launcher": launcher, "work": work, "workers": workers, "points": len(plan.points),
        "overhead_ms_mean": 1e3 * (statistics.fmean(gaps) - own_s),
        "gap_ms_mean": 1e3 * statistics.fmean(gaps), "gap_ms_p50": 1e3 * statistics.median(gaps),
        "gap_ms_p95": 1e3 * statistics.quantiles(gaps, n=20)[-1], "own_ms_mean": 1e3 * own_s * workers,
        "until_first_point_s": ends.at_s[0] - began_s, "all_s": ended_s - began_s,
        "driver_cpu_ms_a_point": 1e3 * cpu_s / len(plan.points), "load_average": load,
    }  # fmt: skip


def speedup(one: Row, two: Row) -> float:
    """Points a second of two workers over those of one, once all are there."""
    return one["gap_ms_mean"] / two["gap_ms_mean"]


def local(points: int) -> Row:
    plan, plan_s = plan_of(points)
    few = Plan(plan.sources, plan.points[: max(points // 2, 20)])
    os.environ["STEPSCOPE_SLEEP_S"] = str(SLEEP_S)
    no_op = sweep(plan, "no_op", 1)
    one, two = sweep(few, "sleep", 1), sweep(few, "sleep", 2)
    return {
        "plan_ms_a_point": 1e3 * plan_s,
        "no_op": no_op, "sleep_1": one, "sleep_2": two, "speedup_2": speedup(one, two),
        "saturated": sweep(plan, "no_op", 4), "saturated_recordings": sweep(plan, "recording", 4),
        "eight_mib": sweep(few, "megabytes", 1),
    }  # fmt: skip


def on_ray(points: int) -> Row:
    import ray
    from ray.cluster_utils import Cluster

    store_bytes = 256 << 20
    os.environ["STEPSCOPE_SLEEP_S"] = str(SLEEP_S)
    head = {**NODES[0], "include_dashboard": False, "object_store_memory": store_bytes}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for node in NODES[1:]:
        cluster.add_node(**node, object_store_memory=store_bytes)
    plan, _ = plan_of(points)
    few = Plan(plan.sources, plan.points[: max(points // 2, 20)])

    def on(what: Plan, work: str, workers: int) -> Row:
        return sweep(what, work, workers, "ray", cluster.address)

    try:
        one, two = on(few, "sleep", 1), on(few, "sleep", 2)
        return {
            "ray": ray.__version__, "nodes": list(NODES),
            "no_op": on(plan, "no_op", 1), "sleep_1": one, "sleep_2": two, "speedup_2": speedup(one, two),
            "saturated": on(plan, "no_op", 5), "saturated_recordings": on(plan, "recording", 5),
            "eight_mib": on(few, "megabytes", 1),
        }  # fmt: skip
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("launcher", choices=["local", "ray"])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {"local": local, "ray": on_ray}[options.launcher](options.points)
    machine = {
        "machine": "CPU only: GPUs are declared, points measure nothing", "cores": os.cpu_count(), "nice": os.nice(0),
        "python": platform.python_version(), "date": f"{time.strftime('%Y-%m-%d')}",
    }  # fmt: skip
    text = json.dumps({**machine, **found}, indent=1, default=lambda value: round(value, 2))
    text = json.dumps(json.loads(text, parse_float=lambda digits: round(float(digits), 2)), indent=1) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
