"""Whole decode steps of 64 requests (hidden 1024, 16 layers) beside vLLM's, scheduler and output processing inside.

    python benchmarks/gpu/step_against_vllm.py measure --out ours.json [--barrier DIR --n N]
    python benchmarks/gpu/step_against_vllm.py compare --ours ours.json... --vllm v1.json v2.json --out FILE

`measure` runs ours: waves of 64 requests, prompts of 512 tokens, 64 tokens each, in turns with and without the probe,
one step at a time and two in flight. The vLLM side is written by its own benchmark (bench.py of vllm_on_gpu, task thr),
which waits at the same barrier and measures under the same lock: all sides run in one call on one machine, alone.
A step is the time from one return of the loop to the next; only steps of 64 requests with one token each count.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import statistics
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from stepscope.experiments.loop import LoopLimits, StepLoop
from stepscope.instrumentation.probe import Ledger, NullProbe, Probe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import build_runner
from stepscope.runner.models.weights import shared_weights
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import SchedulerConfig
from stepscope.workloads.workload import Workload

ROWS, PROMPT, OUTPUT, WAVES, BUDGET, LONGEST = 64, 512, 64, 4, 8192, 4096
ARMS = (("async_auto", False), ("sync", False), ("async_auto", True))
ROUNDS = 3


class Counted:
    """The runner, with the shape of each submitted step noted."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self.shapes: list[tuple[int, int]] = []

    def submit(self, delta: Any) -> Any:
        self.shapes.append((delta.total_num_scheduled_tokens, len(delta.num_scheduled_tokens)))
        return self.runner.submit(delta)


class Arm:
    """One runner with its device; `wave` serves requests and returns the durations of decode steps in ms."""

    def __init__(self, handoff: str, probed: bool, device: str = "cuda", model: str = "small-1024") -> None:
        self.name = f"{handoff}{', probe' if probed else ''}"
        self.ahead = handoff != "sync"
        blocks = 2 + ROWS * -(-(PROMPT + OUTPUT) // 16)
        config = RunnerConfig(
            model=model, max_num_seqs=ROWS, max_num_batched_tokens=BUDGET, max_model_len=LONGEST, num_blocks=blocks,
            graph_mode="full_decode_only", capture_sizes=(ROWS,), token_handoff=handoff,
        )  # fmt: skip
        self.scheduler = SchedulerConfig(
            max_num_seqs=ROWS, max_num_batched_tokens=BUDGET, max_model_len=LONGEST, num_blocks=blocks,
            enable_prefix_caching=False, async_scheduling=self.ahead,
        )
        self.ledger = Ledger()
        self.device = make_device(device, ledger=self.ledger)
        self.probe = Probe(self.ledger, self.device.clock, marks=self.device) if probed else NullProbe()
        self.engine = Counted(build_runner(config, self.device, self.probe, self.ledger))
        self.vocab = self.engine.runner.executor._model.config.vocab_size
        self.waves = 0
        self.ranges: dict[str, float] = {}

    def wave(self) -> list[float]:
        self.device.activate()
        self.waves += 1
        requests = tuple(
            Request(f"w{self.waves}.r{i}", PROMPT, OUTPUT, self.vocab, seed=self.waves) for i in range(ROWS * WAVES)
        )
        loop = StepLoop(Workload(name="waves", requests=requests, scheduler=self.scheduler), self.engine, self.probe,
                        self.device)  # fmt: skip
        self.engine.shapes.clear()
        times: list[int] = []
        gc.collect()
        gc.freeze()
        outcome = loop.run(LoopLimits(), progress=lambda done, total: times.append(time.perf_counter_ns()))
        gc.unfreeze()
        assert outcome.tokens_got == outcome.tokens_expected == ROWS * WAVES * OUTPUT
        self.ranges = host_ranges(self.ledger.take()["spans"])
        steps = zip(self.engine.shapes[1:], times, times[1:], strict=False)
        return [(end - begin) / 1e6 for shape, begin, end in steps if shape == (ROWS, ROWS)]


def measure(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    with shared_weights():
        arms = [Arm(*arm, device=options.device, model=options.model) for arm in ARMS]
        for arm in arms:
            arm.wave()
        with _lock(options.barrier, options.n):
            found: dict[str, list[float]] = {arm.name: [] for arm in arms}
            for turn in range(ROUNDS):
                for arm in arms if turn % 2 == 0 else arms[::-1]:
                    found[arm.name] += arm.wave()
    for arm in arms:
        with closing(arm.device):
            pass
    ranges = {arm.name: arm.ranges for arm in arms if arm.ranges}
    options.out.write_text(json.dumps(facts() | {"decode_step_ms": found, "host_us": ranges}) + "\n")
    print({name: round(statistics.median(steps), 4) for name, steps in found.items()})


class _lock:
    """Waits until all sides are ready, then holds the lock under which each measures alone."""

    def __init__(self, folder: Path | None, sides: int) -> None:
        self.folder, self.sides = folder, sides

    def __enter__(self) -> None:
        if self.folder is None:
            return
        (self.folder / "ready.ours").touch()
        until = time.time() + 240
        while len(list(self.folder.glob("*.*"))) < self.sides and time.time() < until:
            time.sleep(0.2)
        self.file = open(self.folder / "lock", "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if self.folder is not None:
            self.file.close()
            time.sleep(1.0)  # let another side have the lock


def host_ranges(spans: list[Any]) -> dict[str, float]:
    """Median host time of each phase, range and call in the last wave, us."""
    times: dict[str, list[int]] = {}
    for _, lane, name, kind, _, start, end, *_ in spans:
        if lane.startswith("host"):
            times.setdefault(f"{kind} {name}", []).append(end - start)
    return {name: round(statistics.median(found) / 1e3, 1) for name, found in times.items()}


def facts() -> dict[str, Any]:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {"gpu": gpu, "torch": torch.__version__, "rows": ROWS, "prompt": PROMPT, "output": OUTPUT}


def compare(options: argparse.Namespace) -> None:
    ours = [json.loads(path.read_text()) for path in options.ours]
    steps: dict[str, list[float]] = {}
    for run in ours:
        for name, times in run["decode_step_ms"].items():
            steps.setdefault(name, []).extend(times)
    record: dict[str, Any] = {key: value for key, value in ours[0].items() if key != "decode_step_ms"}
    record["ours_ms"] = {name: summary(times) for name, times in steps.items()}
    record["ours_by_run_ms"] = [
        {name: summary(times)["median"] for name, times in run["decode_step_ms"].items()} for run in ours
    ]
    record["vllm_ms"] = {}
    for path in options.vllm:
        told = json.loads(path.read_text())
        thr = told["RES"]["thr"] if "RES" in told else told["thr"]
        record["vllm_ms"][told["tag"]] = thr["64x512->64"]["decode_step_ms"] | {
            "out_tok_s": thr["64x512->64"]["out_tok_s"]
        }
    best = min(side["median"] for side in record["vllm_ms"].values())
    record["ratio_to_the_faster_vllm"] = {
        name: round(figures["median"] / best, 3) for name, figures in record["ours_ms"].items()
    }
    record["host_us"] = ours[0]["host_us"]
    record["raw_ours_ms"] = {name: [round(time_ms, 4) for time_ms in times] for name, times in steps.items()}
    record["command"] = "bash benchmarks/gpu/beside_vllm.sh OUT"
    options.out.write_text(json.dumps(record) + "\n")
    for name, figures in {**record["ours_ms"], **record["vllm_ms"]}.items():
        print(f"{name:24} {figures}")
    print("ratio to the faster vLLM:", record["ratio_to_the_faster_vllm"])


def summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    at = {"p10": 0.1, "median": 0.5, "p90": 0.9}
    return {"n": len(ordered), **{name: round(ordered[int(p * (len(ordered) - 1))], 4) for name, p in at.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    ours = verbs.add_parser("measure")
    ours.add_argument("--out", type=Path, required=True)
    ours.add_argument("--barrier", type=Path)
    ours.add_argument("--n", type=int, default=1)
    ours.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    ours.add_argument("--model", default="small-1024", help=argparse.SUPPRESS)
    ours.set_defaults(do=measure)
    both = verbs.add_parser("compare")
    both.add_argument("--ours", type=Path, nargs="+", required=True)
    both.add_argument("--vllm", type=Path, nargs="+", required=True)
    both.add_argument("--out", type=Path, required=True)
    both.set_defaults(do=compare)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
