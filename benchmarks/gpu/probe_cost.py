"""What the probe costs a step: arms side by side, block by block, A B B A, in one process a launch.

    stripped   the same source without the calls (see stripped.py)
    again      the same once more: what two runners that do the same differ by
    off        the calls, and a probe that records nothing
    host       host ranges, phases and step rows
    events     the same, timing events at the borders of phases and of every device operation, read and written as rows

On the device `cuda` the shapes are an empty forward (the tiny model in a graph), where all of the cost shows, and a
device-bound decode of llama-1b. With --device cpu the first two of them show what they can without events.
The number of calls that synchronise is counted by the profiler, in all arms. Rows that were not made while the host
waited for the device are made between two blocks; what that takes is stated apart, a step.

    python benchmarks/gpu/probe_cost.py --out benchmarks/results/h200/probe_cost.json
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import stripped
import torch

ARMS = ("stripped", "again", "off", "host", "events")
BARE = ("stripped", "again")
BOUNDS_US = {"off": 3, "host": 15, "events": 35}
SHAPES: dict[str, dict[str, Any]] = {
    "empty": {"model": "tiny", "num_reqs": 8, "prompt_len": 32, "max_model_len": 4096, "num_blocks": 4096},
    "bound": {"model": "llama-1b", "num_reqs": 64, "prompt_len": 3000, "max_model_len": 8192, "num_blocks": 18_000},
}
SYNCHRONISING = ("cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")


class Arm:
    """A runner of its own with its loop, from the package `stepscope` or from the stripped one."""

    def __init__(self, name: str, device: str, shape: dict[str, Any], steps: int) -> None:
        package = stripped.NAME if name in BARE else "stepscope"
        self.name = name
        self.rows_ns: list[float] = []  # a block: what making the rows took, a step
        load = lambda path: importlib.import_module(f"{package}.{path}")  # noqa: E731
        spec_of = load("experiments.resolve").resolve({
            "workload": {
                "regime": "steady", "scheduler": {"reserve_output": True},
                "settings": {"num_reqs": shape["num_reqs"], "prompt_len": shape["prompt_len"]},
            },
            "runner": {
                "model": shape["model"], "graph_mode": "full" if device == "cuda" else "none",
                "capture_sizes": [shape["num_reqs"]],
                **{key: shape[key] for key in ("max_model_len", "num_blocks")}, "max_num_batched_tokens": 8192,
            },
            "device": device,
            "measure": {"steps": steps},
        })  # fmt: skip
        workload = load("experiments.resolve").workload_of(spec_of)
        self.ledger = load("instrumentation.probe").Ledger()
        self.device = self._device(load, device)
        self.probe = self._probe(load)
        self.runner = load("runner.model_runner").build_runner(spec_of.runner, self.device, self.probe, self.ledger)
        self._limits = load("experiments.loop").LoopLimits
        self.loop = load("experiments.loop").StepLoop(workload, self.runner, self.probe, self.device)
        self.run(spec_of.measure.warmup_steps or 0)
        self.ledger.take()

    def _device(self, load: Any, device: str) -> Any:
        if device == "cuda":
            return load("runner.devices.cuda_factory").make_cuda(self.ledger, timing=self.name == "events")
        return load("runner.devices").make_device(device, ledger=self.ledger)

    def _probe(self, load: Any) -> Any:
        probes = load("instrumentation.probe")
        if self.name in (*BARE, "off"):
            return probes.NullProbe()
        return probes.Probe(self.ledger, self.device.clock, marks=self.device, level=self.name)

    def run(self, steps: int) -> list[int]:
        """Periods of `steps` steps, in ns: from one end of a step to the next."""
        self.device.activate()
        times: list[int] = []
        now = time.perf_counter_ns
        done = self.loop.num_steps if hasattr(self.loop, "num_steps") else 0
        self.loop.run(self._limits(steps=done + steps), progress=lambda answered, all_: times.append(now()))
        return [later - earlier for earlier, later in pairwise(times)]

    def block(self, settle: int, steps: int) -> list[int]:
        """One block; the rows that it made are dropped."""
        periods = self.run(settle + steps)[settle:]
        begin = time.perf_counter_ns()
        self.ledger.take()
        self.rows_ns.append((time.perf_counter_ns() - begin) / (settle + steps))
        return periods


def synchronising_calls(arm: Arm, steps: int) -> dict[str, float]:
    """Calls a step by name, as the profiler saw them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        arm.run(steps)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    counts = Counter(event["name"] for event in events if event.get("cat") == "cuda_runtime")
    return {name: counts[name] / steps for name in SYNCHRONISING}


def launch(device: str, shape: str, blocks: int, steps: int) -> dict[str, Any]:
    """All arms of one process, in turns: raw periods by arm and block, and the synchronising calls."""
    turns: ModuleType = importlib.import_module("stepscope.experiments.interleaved")
    total = blocks * (steps + 10) + 200
    with ExitStack() as stack:
        for package in ("stepscope", stripped.NAME):
            stack.enter_context(importlib.import_module(f"{package}.runner.models.weights").shared_weights())
        arms = [Arm(name, device, SHAPES[shape], total) for name in ARMS]
    gc.collect()
    gc.freeze()
    raw: dict[str, list[list[int]]] = {arm.name: [] for arm in arms}
    for index in turns.turns(len(arms), blocks):
        raw[ARMS[index]].append(arms[index].block(5, steps))
    calls = {arm.name: synchronising_calls(arm, 20) for arm in arms} if device == "cuda" else {}
    for arm in arms:
        arm.device.close()
    rows_ns = {arm.name: statistics.median(arm.rows_ns) for arm in arms}
    return {
        "shape": shape, "periods_ns": raw, "synchronising_calls_per_step": calls, "rows_between_blocks_ns": rows_ns,
    }  # fmt: skip


def costs_us(found: dict[str, Any]) -> dict[str, float]:
    """Median over rounds of (median of the arm's block - median of the stripped block of the same round), in us."""
    medians = {name: [statistics.median(block) for block in blocks] for name, blocks in found["periods_ns"].items()}
    base = medians["stripped"]
    return {
        name: statistics.median(a - b for a, b in zip(values, base, strict=True)) / 1e3
        for name, values in medians.items()
    }  # fmt: skip


def table(launches: list[dict[str, Any]]) -> str:
    """One line an arm and shape: period, cost against stripped by launch, share, synchronising calls."""
    lines = [f"{'shape':8}{'arm':10}{'period us':>10}  cost us by launch (bound)"]
    for shape in dict.fromkeys(found["shape"] for found in launches):
        mine = [found for found in launches if found["shape"] == shape]
        for name in ARMS:
            blocks = [statistics.median(block) for found in mine for block in found["periods_ns"][name]]
            costs = [costs_us(found)[name] for found in mine]
            period = statistics.median(blocks) / 1e3
            said = ", ".join(f"{cost:.2f}" for cost in costs)
            calls = sum(mine[0]["synchronising_calls_per_step"].get(name, {}).values())
            rows = statistics.median(found["rows_between_blocks_ns"][name] for found in mine) / 1e3
            share = f"{100 * statistics.median(costs) / period:.2f} %"
            lines.append(
                f"{shape:8}{name:10}{period:10.1f}  {said} ({BOUNDS_US.get(name, 0)})  {share}  sync calls {calls:g}"
                f"  rows {rows:.1f} us"
            )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure, write, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="cuda")
    options.add_argument("--shapes", nargs="+", default=["empty", "bound"], choices=list(SHAPES))
    options.add_argument("--launches", type=int, default=3)
    options.add_argument("--blocks", type=int, default=24)
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--out", type=Path)
    options.add_argument("--one", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        with tempfile.TemporaryDirectory() as folder:
            count = stripped.make_stripped(Path(folder))
            found = launch(chosen.device, chosen.one, chosen.blocks, chosen.steps)
        print(json.dumps({**found, "calls_taken_out": count}))
        return
    launches = []
    for shape in chosen.shapes:
        for _ in range(chosen.launches):
            command = [sys.executable, __file__, "--one", shape, "--device", chosen.device,
                       "--blocks", str(chosen.blocks), "--steps", str(chosen.steps)]  # fmt: skip
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            launches.append(json.loads(done.stdout.splitlines()[-1]))
    if chosen.out:
        gpu = torch.cuda.get_device_name() if chosen.device == "cuda" else "none"
        record = {"gpu": gpu, "torch": torch.__version__, "command": " ".join(sys.argv), "launches": launches}
        chosen.out.write_text(json.dumps(record) + "\n")
    print(table(launches))


if __name__ == "__main__":
    main()
