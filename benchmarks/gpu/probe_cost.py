"""What the probe costs a step: arms side by side, block by block, in balanced turns, in one process a launch.

    stripped   the same source without the calls (see stripped.py)
    again      the same once more: what two runners that do the same differ by
    off        the calls, and a probe that records nothing
    host       host ranges, phases and step rows
    events     the same, timing events at the borders of phases and of every device operation, read and written as rows

On the device `cuda` the shapes are an empty forward (the tiny model in a graph), where all of the cost shows, and a
device-bound decode of llama-1b. With --device cpu the first two of them show what they can without events.
With --before, on the first shape the last two also of another checkout: in turns with this one's, as nothing else can
be compared here.
The number of calls that synchronise is counted by the profiler, in all arms. Rows that were not made while the host
waited for the device are made between two blocks; what that takes is stated apart, a step.

A host's speed drifts by more than what is looked for, and on a shared host a core's speed flips by up to 1.8 every 0.1
to 0.5 s, whatever one does. So blocks are short, a round of all arms takes under 30 ms, and it is compared within
itself: the figure of a launch is the median over rounds of (median of the arm's block - what the stripped source took
in the same round: the mean of its two arms), with the interval of that median; of `again` it is the difference of the
two. Rounds in which the slowest arm took 1.25 times the fastest one's time saw a flip: they are left out and counted.
The others are told apart by the core's speed then, and the cost is stated at either, fast and slow, as well as over
both: in a slow round the stripped source took more than 1.25 times what it did in the fastest tenth of the launch's.
Beside it stands what needs no rounds: the lower fifth of the steps of an arm - that of the stripped source's.
The first shape's launches are short: its sequences grow, and later steps cost less, as part of what the host does then
lies behind a longer forward.

What an arm leaves in the caches slows whoever comes next: in blocks of three steps behind one, a stripped step behind
the arm with events took 10 to 15 us more than behind its twin (H200, in rounds A B C C B A, where `off` never came
behind `events`). So a block has as many steps that are not counted as are, and every arm follows every other one
equally often: a round goes once through the circle of arms, in strides of 1, 2, 3, ... Each arm runs a copy of the
package of its own: CPython specialises code by what passes through it, and code through which probes of several kinds
pass is slower than that of a process with one, by 3 us a step where nothing is recorded. The measuring thread has a
core to itself, all others of the process have the rest. Where memory lies is a launch's luck: launches are what is
counted.

The device-bound shape has two steps in flight, or the host's part of a step would show in it; its blocks are told by
their pace (`analysis/pace.py`).

    python benchmarks/gpu/probe_cost.py --out benchmarks/results/h200/probe_cost.json
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import stripped
import torch
from stepscope.analysis.pace import pace_ns
from stepscope.instrumentation.probe.native import native

ARMS = ("stripped", "again", "off", "host", "events")
BARE = ("stripped", "again")
BEFORE = ("host before", "events before")
BOUNDS_US = {"off": 3, "host": 15, "events": 35}
PACKAGE = "stepscope_{}"
"""An arm's own copy of the package."""
FLIP = 1.25
"""No arm costs a quarter of a step: where two arms are further apart, the core's speed changed between them."""
SPEEDS = ("fast", "slow")
Launch = dict[str, Any]
Blocks = dict[str, list[float]]
SETTLE = {"empty": 5, "bound": 4}
"""Steps of a block that are not counted: they find the caches full of another arm's things, or no step in flight. One
more comes before these, with which the first period begins.
"""
SHAPES: dict[str, dict[str, Any]] = {
    "empty": {"model": "tiny", "num_reqs": 8, "prompt_len": 32, "max_model_len": 4096, "num_blocks": 4096,
              "token_handoff": "sync"},
    "bound": {"model": "llama-1b", "num_reqs": 64, "prompt_len": 3000, "max_model_len": 8192, "num_blocks": 16_400,
              "token_handoff": "async_auto"},
}  # fmt: skip
SYNCHRONISING = ("cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")


class CommonWeights(dict[Any, Any]):
    """What the copies of `shared_weights` keep, in common: each has a class ModelConfig of its own."""

    def __contains__(self, key: object) -> bool:
        return super().__contains__(repr(key))

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(repr(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(repr(key), value)


class Arm:
    """A runner of its own with its loop, from the arm's package."""

    def __init__(self, name: str, device: str, shape: dict[str, Any], steps: int, settle: int) -> None:
        package = package_of(name)
        self.name = name
        self.level = name.split()[0]
        self.settle = settle
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
                **{key: shape[key] for key in ("max_model_len", "num_blocks", "token_handoff")},
                "max_num_batched_tokens": 8192,
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
            return load("runner.devices.cuda_factory").make_cuda(self.ledger, timing=self.level == "events")
        return load("runner.devices").make_device(device, ledger=self.ledger)

    def _probe(self, load: Any) -> Any:
        probes = load("instrumentation.probe")
        if self.name in (*BARE, "off"):
            return probes.NullProbe()
        return probes.Probe(self.ledger, self.device.clock, marks=self.device, level=self.level)

    def run(self, steps: int) -> list[int]:
        """Periods of `steps` steps, in ns: from one end of a step to the next."""
        self.device.activate()
        times: list[int] = []
        now = time.perf_counter_ns
        done = self.loop.num_steps if hasattr(self.loop, "num_steps") else 0
        self.loop.run(self._limits(steps=done + steps), progress=lambda answered, all_: times.append(now()))
        return [later - earlier for earlier, later in pairwise(times)]

    def block(self, steps: int) -> list[int]:
        """The periods of one block; the rows that it made are dropped."""
        periods = self.run(self.settle + 1 + steps)[self.settle :]
        begin = time.perf_counter_ns()
        self.ledger.take()
        self.rows_ns.append((time.perf_counter_ns() - begin) / (self.settle + 1 + steps))
        return periods


def package_of(arm: str) -> str:
    """The name of the arm's own copy."""
    return PACKAGE.format(arm.replace(" ", "_"))


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


def core_to_itself() -> tuple[int, set[int]]:
    """A core for the measuring thread, and those that are left for others: not its siblings."""
    cores = sorted(os.sched_getaffinity(0))
    mine = cores[len(cores) // 2]
    siblings = Path(f"/sys/devices/system/cpu/cpu{mine}/topology/thread_siblings_list")
    taken = {mine}
    for part in siblings.read_text().strip().split(",") if siblings.exists() else ():
        first, _, last = part.partition("-")
        taken.update(range(int(first), int(last or first) + 1))
    return mine, set(cores) - taken or set(cores)


def turns(arms: int, rounds: int) -> Iterator[int]:
    """Rounds of all arms, a prime number of them. A round goes through the circle in strides: over `arms - 1` rounds,
    with strides of their own, each arm comes behind each other one equally often and never behind itself; all of them
    end with the same arm, and the next ones with the next.
    """
    last = arms - 1
    for number in range(rounds):
        stride = number % (arms - 1) + 1
        begin = last + stride + (stride == 1 and number > 0)
        order = [(begin + stride * place) % arms for place in range(arms)]
        yield from order
        last = order[-1]


def write_package(folder: Path, arm: str, before: Path | None) -> int:
    """The arm's own copy, importable from `folder`. Returns how many calls were taken out of it."""
    root = before.resolve() if before and arm in BEFORE else stripped.ROOT
    return stripped.make_copy(folder, package_of(arm), root, strip=arm in BARE)


def launch(chosen: argparse.Namespace) -> dict[str, Any]:
    """All arms of one process, in turns: medians of the blocks by arm, and the synchronising calls."""
    device, shape, blocks, steps = chosen.device, chosen.one, chosen.blocks, chosen.steps
    settle = SETTLE[shape]
    torch.set_num_threads(1)
    mine, others = core_to_itself()
    os.sched_setaffinity(0, others)  # of this thread, and of those that it starts from here on
    arms, weights = [], CommonWeights()
    for name in chosen.names:
        importlib.import_module(f"{package_of(name)}.runner.models.weights")._shared = weights
        arms.append(Arm(name, device, SHAPES[shape], blocks * (steps + settle + 1) + 200, settle))
    os.sched_setaffinity(0, {mine})
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    sys.stdin.readline()
    medians: Blocks = {arm.name: [] for arm in arms}
    fifths: dict[str, list[int]] = {arm.name: [] for arm in arms}
    for index in turns(len(arms), blocks):
        periods = arms[index].block(steps)
        took = statistics.median(periods) if shape == "empty" else pace_ns(periods)
        medians[arms[index].name].append(round(took or 0))
        fifths[arms[index].name] += periods if shape == "empty" else medians[arms[index].name][-1:]
    calls = {arm.name: synchronising_calls(arm, 20) for arm in arms} if chosen.calls else {}
    for arm in arms:
        arm.device.close()
    rows_ns = {arm.name: statistics.median(arm.rows_ns) for arm in arms}
    return {
        "shape": shape, "block_medians_ns": medians, "steps_a_block": steps, "core": mine, "in_c": native() is not None,
        "lower_fifth_ns": {name: statistics.quantiles(periods, n=5)[0] for name, periods in fifths.items()},
        "synchronising_calls_per_step": calls, "rows_between_blocks_ns": rows_ns,
    }  # fmt: skip


def steady_rounds(found: Launch) -> list[tuple[float, ...]]:
    """The blocks of the arms, in rounds without a flip; in all, where there is no other."""
    rounds = list(zip(*found["block_medians_ns"].values(), strict=True))
    return [times for times in rounds if max(times) <= FLIP * min(times)] or rounds


def rounds_at(found: Launch, speed: str) -> Blocks:
    """The blocks by arm, of the steady rounds at a speed: fast, slow, or "" for both."""
    names = list(found["block_medians_ns"])
    bare = names.index(BARE[0])
    limit = FLIP * sorted(found["block_medians_ns"][BARE[0]])[len(found["block_medians_ns"][BARE[0]]) // 10]
    chosen = [times for times in steady_rounds(found) if not speed or (times[bare] > limit) == (speed == "slow")]
    return {name: [times[at] for times in chosen] for at, name in enumerate(names)}


def cost_us(found: Launch, arm: str, speed: str = "") -> tuple[float, float, float] | None:
    """The median over rounds of arm - stripped source, and its 95 % interval by order statistics, in us; None without
    rounds of that speed.
    """
    blocks = rounds_at(found, speed)
    base = blocks[BARE[0]]
    if arm not in BARE:
        base = [(one + other) / 2 for one, other in zip(*(blocks[bare] for bare in BARE), strict=True)]
    differences = sorted(a - b for a, b in zip(blocks[arm], base, strict=True))
    if not differences:
        return None
    reach = round(0.98 * len(differences) ** 0.5)
    middle = (len(differences) - 1) // 2
    low, high = differences[max(middle - reach, 0)], differences[min(middle + 1 + reach, len(differences) - 1)]
    return statistics.median(differences) / 1e3, low / 1e3, high / 1e3


def by_fifths_us(found: Launch, arm: str) -> float:
    """The lower fifth of the arm's steps (device-bound: of its blocks) - that of the stripped source's, in us."""
    fifths = found["lower_fifth_ns"]
    return float(fifths[arm] - statistics.fmean(fifths[bare] for bare in BARE)) / 1e3


def arm_lines(mine: list[Launch], name: str) -> list[str]:
    """What one arm cost on one shape, launch by launch: over all, at either speed, and by the lower fifths."""
    costs = {speed: [cost for found in mine if (cost := cost_us(found, name, speed))] for speed in ("", *SPEEDS)}
    middle = statistics.median(cost for cost, _, _ in costs[""])
    period = statistics.median(block for found in mine for block in rounds_at(found, "")[name]) / 1e3
    calls = [found["synchronising_calls_per_step"] for found in mine if found["synchronising_calls_per_step"]]
    counted = f"  sync calls {sum(calls[0][name].values()):g}" if calls else ""
    rows = statistics.median(found["rows_between_blocks_ns"][name] for found in mine) / 1e3
    shape = mine[0]["shape"]
    lines = [
        f"{shape:8}{name:14}{period:10.1f}  {middle:.2f} ({BOUNDS_US.get(name.split()[0], 0)})"
        f"  {100 * middle / period:.3f} %{counted}  rows {rows:.1f} us"
    ]
    for speed, found in costs.items():
        if found:
            said = ", ".join(f"{cost:.2f} [{low:.2f} {high:.2f}]" for cost, low, high in found)
            lines.append(f"{'':24}{speed or 'both':>8}  {statistics.median(cost for cost, _, _ in found):.2f}: {said}")
    fifths = [by_fifths_us(found, name) for found in mine]
    said = ", ".join(f"{cost:.2f}" for cost in fifths)
    return [*lines, f"{'':24}{'fifths':>8}  {statistics.median(fifths):.2f}: {said}"]


def table(launches: list[Launch]) -> str:
    """By arm and shape: period, cost against stripped by launch, share, synchronising calls."""
    lines = [f"{'shape':8}{'arm':14}{'period us':>10}  cost us: median of launches (bound); launches with intervals"]
    for shape in dict.fromkeys(found["shape"] for found in launches):
        mine = [found for found in launches if found["shape"] == shape]
        for name in mine[0]["block_medians_ns"]:
            lines += arm_lines(mine, name)
        counts = [
            f"{len(found['block_medians_ns'][BARE[0]]) - len(steady_rounds(found))} left out,"
            f" {len(rounds_at(found, 'fast')[BARE[0]])} fast, {len(rounds_at(found, 'slow')[BARE[0]])} slow"
            for found in mine
        ]
        lines.append(f"{shape:8}rounds with a flip: {'; '.join(counts)}; in C: {mine[0]['in_c']}")
    return "\n".join(lines)


def run_all(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """One process a launch. They are built side by side, then wait for their turns."""
    started = []
    for shape in chosen.shapes:
        for _ in range(chosen.launches[shape]):
            command = [sys.executable, __file__, "--one", shape, "--device", chosen.device,
                       "--blocks", str(chosen.blocks[shape]), "--steps", str(chosen.steps[shape])]  # fmt: skip
            command += ["--before", str(chosen.before)] if chosen.before else []
            command += ["--calls"] if chosen.device == "cuda" and not started else []
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    gpu = torch.cuda.get_device_name() if chosen.device == "cuda" else "none"
    about = {"gpu": gpu, "torch": torch.__version__, "command": " ".join(sys.argv)}
    launches: list[Launch] = []
    for process in started:
        said, _ = process.communicate("go\n")
        if process.returncode:
            raise SystemExit(f"a launch ended with {process.returncode}")
        launches.append(json.loads(said.splitlines()[-1]))
        print(table(launches[-1:]), flush=True)
        if chosen.out:
            chosen.out.write_text(json.dumps({**about, "launches": launches}) + "\n")
    return launches


def main() -> None:
    """Parse the command line, measure, write, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="cuda")
    options.add_argument("--shapes", nargs="+", default=["empty", "bound"], choices=list(SHAPES))
    options.add_argument("--launches", type=json.loads, default={"empty": 8, "bound": 2}, help="by shape")
    options.add_argument("--blocks", type=json.loads, default={"empty": 80, "bound": 36}, help="rounds, by shape")
    options.add_argument("--steps", type=json.loads, default={"empty": 5, "bound": 12}, help="steps a block, by shape")
    options.add_argument("--before", type=Path, help="another checkout")
    options.add_argument("--out", type=Path)
    options.add_argument("--one", help=argparse.SUPPRESS)
    options.add_argument("--calls", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        chosen.names = (*ARMS, *BEFORE) if chosen.before and chosen.one == "empty" else ARMS
        with tempfile.TemporaryDirectory() as folder:
            sys.path.insert(0, folder)
            counts = {name: write_package(Path(folder), name, chosen.before) for name in chosen.names}
            found = launch(chosen)
        print(json.dumps({**found, "calls_taken_out": counts[BARE[0]]}))
        return
    print(table(run_all(chosen)))


if __name__ == "__main__":
    main()
