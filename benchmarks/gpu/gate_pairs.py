"""Equal arms of the gate on a GPU, and a head whose device time is 3 % longer: `python benchmarks/gpu/gate_pairs.py`.

    launch   two processes of the same commit, resident together; all points are measured in it, one after another
    A/A      per point a row of series of 2 pairs (A B | B A, blocks of 50 steps): each series is a self-comparison over
             the launches, so the comparisons share their launches
    planted  base and head differ in one layer of 30: 3 % of the device time; of the first point's size, 4 pairs a
             launch, measured first, and the time it takes decides how many series fit
    fresh    further launches confirm or refute the planted head, and the series that the first ones did not pass, as
             far as there is time for them

Judged are the pace of the steps, which are pipelined, and the forward's device time. No calibration of 20 launches was
made: it would take as long again. The floor of a comparison is 2 %, or comes from the spread of all other series of its
point, whichever is larger; `red_with_2_percent_alone` counts with 2 % alone. Results are written after every launch;
none is begun that would not end within --seconds. `--join A,B C` judges raw blocks of earlier runs again: A and B of
one machine, C of another.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gate_pairs_judged import PLANTED, SERIES_PAIRS, Found, joined, results, show, unsure
from stepscope.analysis.gate.block_values import PERIOD, block_values
from stepscope.analysis.gate.limits import Limits
from stepscope.experiments.gate.arms import parse_arm
from stepscope.experiments.gate.launch import ARMS, Bench, PointLaunch, measure_point, resident
from stepscope.experiments.gate.points import Blocks
from stepscope.experiments.gate.procedure import benched
from stepscope.experiments.gate.process import ArmFailed
from stepscope.experiments.gate.request import GateRequest
from stepscope.reports.jsonable import plain

PLANTED_PAIRS = 4
POINTS = ("32x6144", "32x3072")
"""Requests x tokens of a prompt. Long contexts and two steps in flight: the device is what takes the time. A host on
these machines changes its speed by 1.8 several times a second, so blocks of 50 host-bound steps of 1 ms differ by 10 to
30 %."""
MOST_SERIES = 26
LLAMA = {
    "model_type": "llama", "vocab_size": 8192, "hidden_size": 512, "intermediate_size": 2048,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False, "max_position_embeddings": 131072,
}  # fmt: skip
"""Small weights, which are quickly made: the caches are what takes the time."""
LAYERS = {"base": 30, "head": 31}
TINY = {**LLAMA, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 32, "torch_dtype": "float32"}  # fmt: skip


def size_of(point: str) -> tuple[int, int]:
    """Requests and tokens of a prompt."""
    requests, prompt = point.split("x")
    return int(requests), int(prompt)


def step_ms(point: str) -> float:
    """About what a step of 30 layers takes on an H200."""
    requests, prompt = size_of(point)
    return 1.1 + 13.7e-6 * requests * prompt


def tree(model: str, requests: int, prompt: int, steps: int, device: str) -> dict[str, Any]:
    return {
        "workload": {"regime": "steady", "settings": {"num_reqs": requests, "prompt_len": prompt}},
        "runner": {"graph_mode": "full", "model": model, "capture_sizes": [requests], "token_handoff": "async_auto",
                   "num_blocks": requests * (prompt + 2 * steps) // 16 + 64, "max_model_len": 2 * (prompt + 2 * steps)},
        "device": device, "measure": {"steps": steps},
    }  # fmt: skip


def trees(scratch: Path, blocks: Blocks, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """arm -> name -> what it measures. On a CPU the layers are small: it is only a rehearsal there."""
    found: dict[str, dict[str, Any]] = {arm: {} for arm in ARMS}
    device, shrink = options.device, options.shrink
    for arm in ARMS:
        for layers in LAYERS.values():
            shape = {**LLAMA, "num_hidden_layers": layers}
            path = scratch / arm / f"{layers}-layers.json"
            path.write_text(json.dumps(shape if device == "cuda" else {**TINY, "num_hidden_layers": layers - 27}))
        configs = {name: str(scratch / arm / f"{layers}-layers.json") for name, layers in LAYERS.items()}
        steps = blocks.launch_steps(SERIES_PAIRS * options.most_series)
        for point in options.points:
            requests, prompt = size_of(point)
            found[arm][f"decode-{point}"] = tree(configs["base"], requests, prompt // shrink, steps, device)
        requests, prompt = size_of(options.points[0])
        steps = blocks.launch_steps(PLANTED_PAIRS)
        found[arm][planted_name(options)] = tree(configs[arm], requests, prompt // shrink, steps, device)
    return found


def planted_name(options: argparse.Namespace) -> str:
    return f"{PLANTED}-{options.points[0]}"


def launch(
    bench: Bench, pairs: dict[str, int], number: int, fit: Callable[[float, float], int] | None = None
) -> tuple[dict[str, PointLaunch], float]:
    """All of `pairs`' points in one pair of processes; and the seconds until the first, the planted one, was done.

    `fit`: pairs of the others, by those seconds and those that the planted one's blocks took.
    """
    found: dict[str, PointLaunch] = {}
    began = time.perf_counter()
    until_planted_s = 0.0
    with resident(bench, number) as arms:
        said = [f"ready {time.perf_counter() - began:.1f}"]
        for name in pairs:
            found[name] = one = measure_point(replace(bench, pairs=pairs[name]), arms, name, number)
            if name.startswith(PLANTED):
                until_planted_s = time.perf_counter() - began
            if name.startswith(PLANTED) and fit is not None and one.values:
                blocks_s = sum(float(np.nansum(values.timed[PERIOD])) for values in one.values.values()) / 1e9
                count = fit(until_planted_s, blocks_s * bench.blocks.launch_steps(1))
                pairs.update((other, count) for other in pairs if other != name)
                said.append(f"{count // SERIES_PAIRS} series a point")
            said.append(f"{name} {time.perf_counter() - began:.1f}")
            if one.failures or one.refused:
                said.append(f"{dict(one.failures)} {one.refused or ''}")
            if one.failures:
                break
    print(f"launch {number}, s: {', '.join(said)}", flush=True)
    return found, until_planted_s


class Run:
    """Both stages, as far as the time goes; results are written after every launch."""

    def __init__(self, bench: Bench, options: argparse.Namespace, limits: Limits) -> None:
        self.bench, self.options, self.limits = bench, options, limits
        self.found = Found()
        self.began = time.perf_counter()
        self.planted_s = 0.0  # of the last launch, until the planted point was done: the first found nothing cached
        self.longest_s = 0.0  # of this stage

    @property
    def left_s(self) -> float:
        return self.options.seconds - (time.perf_counter() - self.began)

    def fit(self, until_planted_s: float, planted_s: float) -> int:
        """As many pairs a point as leave time for all launches; reading a recording takes about a third of it."""
        options = self.options
        alone = until_planted_s * (1 + 0.8 * (options.launches + options.fresh - 1))  # the first finds nothing cached
        closing = 2.0 * (options.launches + options.fresh)
        free = (options.seconds - closing - alone) / options.launches - len(options.points)
        ratio = sum(step_ms(point) for point in options.points) / step_ms(options.points[0])
        series = int(free / (1.3 * planted_s / PLANTED_PAIRS * ratio) / SERIES_PAIRS)
        return SERIES_PAIRS * min(max(series, 2), options.most_series)

    def go(self, stage: list[Mapping[str, PointLaunch]], pairs: dict[str, int], first: bool) -> bool:
        expected = 1.05 * (self.longest_s or self.planted_s)
        if expected > self.left_s:
            print(f"{self.options.seconds - self.left_s:.0f} s: no time for another launch", flush=True)
            return False
        at = time.perf_counter()
        number = len(self.found.first) + len(self.found.fresh)
        try:
            launched, until_planted_s = launch(self.bench, pairs, number, self.fit if first else None)
            stage.append(launched)
            self.planted_s = until_planted_s
        except ArmFailed as error:  # what is measured must come home
            print(f"no arms: {error.arm}: {error}", flush=True)
        self.longest_s = max(self.longest_s, time.perf_counter() - at)
        about = {"wall_s": round(time.perf_counter() - self.began, 1), "command": " ".join(sys.argv)}
        self.options.out.write_text(json.dumps(plain(results(self.found, self.limits, about))) + "\n")
        return True

    def measure(self) -> None:
        planted, options, found = planted_name(self.options), self.options, self.found
        most = SERIES_PAIRS * options.most_series
        pairs = {planted: PLANTED_PAIRS, **{f"decode-{point}": most for point in options.points}}
        while len(found.first) < options.launches and self.go(found.first, pairs, not found.first):
            pass
        per_series = self.longest_s / max(1, sum(pairs.values()) // SERIES_PAIRS)
        found.doubtful = self.affordable(unsure(found, self.limits), per_series)
        print(f"fresh launches for {planted} and {found.doubtful}", flush=True)
        again = {planted: PLANTED_PAIRS, **{name: SERIES_PAIRS * len(found.doubtful[name]) for name in found.doubtful}}
        self.longest_s = 0.0
        while len(found.fresh) < options.fresh and self.go(found.fresh, again, False):
            pass

    def affordable(self, doubtful: dict[str, list[int]], series_s: float) -> dict[str, list[int]]:
        """Those for which the fresh launches of the planted head leave time: it comes first."""
        if not self.options.fresh:
            return {}
        free = self.left_s / self.options.fresh - 1.1 * self.planted_s
        chosen: dict[str, list[int]] = {}
        for name, numbers in doubtful.items():
            free -= 1.5  # until the point is built
            count = max(0, min(len(numbers), int(free / (1.2 * series_s))))
            free -= count * 1.2 * series_s
            if count:
                chosen[name] = numbers[:count]
        left = sum(map(len, doubtful.values())) - sum(map(len, chosen.values()))
        print(f"{left} doubtful series are left as they are: no time", flush=True)
        return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--points", nargs="+", default=list(POINTS), help="requests x tokens of a prompt: 32x6144")
    parser.add_argument("--most-series", type=int, default=MOST_SERIES, help="self-comparisons of a point at most")
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--fresh", type=int, default=3, help="launches that confirm, the planted head first")
    parser.add_argument("--seconds", type=float, default=200.0, help="that all of it may take")
    parser.add_argument("--shrink", type=int, default=1)
    parser.add_argument("--join", nargs="+", help="judge earlier results: A,B of one machine, C of another")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    limits, blocks = Limits(pairs=SERIES_PAIRS), Blocks(settle=2)
    if options.join:
        groups = [[Path(path) for path in group.split(",")] for group in options.join]
        options.out.write_text(json.dumps(plain(joined(groups, limits))) + "\n")
    else:
        run(options, limits, blocks)
    return show(json.loads(options.out.read_text()))


def run(options: argparse.Namespace, limits: Limits, blocks: Blocks) -> None:
    request = GateRequest((parse_arm("base", []), parse_arm("head", [])), limits=limits, blocks=blocks)
    with benched(request) as made:
        bench = replace(made, points=trees(made.scratch, blocks, options), timeout_s=100.0,
                        values=partial(block_values, exposed=False), named=frozenset({"runner.model"}))  # fmt: skip
        Run(bench, options, limits).measure()


if __name__ == "__main__":
    sys.exit(main())
