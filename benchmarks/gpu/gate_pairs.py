"""Equal arms of the gate on a GPU, and a head whose device time is 3 % longer: `python benchmarks/gpu/gate_pairs.py`.

    launch   two processes of the same commit, resident together; all points are measured in it, one after another
    A/A      per point a row of series of 2 pairs (A B | B A, blocks of 50 steps): each series is a self-comparison over
             the launches, so the comparisons share their launches
    planted  base and head differ in one layer of 30: 3 % of the device time; 6 pairs a launch, measured first, and the
             time it takes decides how many series fit
    fresh    further launches confirm or refute the series that the first ones did not pass, and the planted head

No calibration of 20 launches was made: it would take as long again. The floor of a comparison is 2 %, or comes from the
spread of all other series of its point, whichever is larger; `red_with_2_percent_alone` counts with 2 % alone. The
results are written after every launch; none is begun that would not end within --seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from stepscope.analysis.gate.block_values import DEVICE, PERIOD, LaunchValues, block_values
from stepscope.analysis.gate.conditions import Conditions, told
from stepscope.analysis.gate.effects import launch_effects
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.pairs import PairBlocks
from stepscope.analysis.gate.point import PointData, PointVerdict, judge_point
from stepscope.analysis.gate.verdict import Verdict
from stepscope.experiments.gate.arms import parse_arm
from stepscope.experiments.gate.launch import ARMS, Bench, PointLaunch, measure_point, resident
from stepscope.experiments.gate.points import Blocks
from stepscope.experiments.gate.procedure import benched
from stepscope.experiments.gate.process import ArmFailed
from stepscope.experiments.gate.request import GateRequest
from stepscope.experiments.gate.series import Series
from stepscope.reports.jsonable import plain

SERIES_PAIRS = 2
FORWARD = "forward_span_p50_ns"
PLANTED = "planted"
POINTS = {"decode-16x3072": (16, 3072), "decode-32x1536": (32, 1536)}  # name -> (requests, tokens of a prompt)
"""Long contexts and two steps in flight: the device is what takes the time. A host on these machines changes its speed
by 1.8 several times a second, so blocks of 50 host-bound steps of 1 ms differ by 10 to 30 %."""
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


@dataclass
class Found:
    """Launches of both stages: name -> what was measured; which series the fresh ones are for."""

    first: list[Mapping[str, PointLaunch]] = field(default_factory=list)
    fresh: list[Mapping[str, PointLaunch]] = field(default_factory=list)
    doubtful: dict[str, list[int]] = field(default_factory=dict)


def tree(model: str, requests: int, prompt: int, steps: int, device: str) -> dict[str, Any]:
    return {
        "workload": {"regime": "steady", "settings": {"num_reqs": requests, "prompt_len": prompt}},
        "runner": {"graph_mode": "full", "model": model, "capture_sizes": [requests], "token_handoff": "async_auto",
                   "num_blocks": requests * (prompt + 2 * steps) // 16 + 64, "max_model_len": 2 * (prompt + 2 * steps)},
        "device": device, "measure": {"steps": steps},
    }  # fmt: skip


def trees(scratch: Path, blocks: Blocks, device: str, shrink: int) -> dict[str, dict[str, Any]]:
    """arm -> name -> what it measures. On a CPU the layers are small: it is only a rehearsal there."""
    found: dict[str, dict[str, Any]] = {arm: {} for arm in ARMS}
    for arm in ARMS:
        for layers in LAYERS.values():
            shape = {**LLAMA, "num_hidden_layers": layers}
            path = scratch / arm / f"{layers}-layers.json"
            path.write_text(json.dumps(shape if device == "cuda" else {**TINY, "num_hidden_layers": layers - 27}))
        configs = {name: str(scratch / arm / f"{layers}-layers.json") for name, layers in LAYERS.items()}
        steps = blocks.launch_steps(SERIES_PAIRS * MOST_SERIES)
        for name, (requests, prompt) in POINTS.items():
            found[arm][name] = tree(configs["base"], requests, prompt // shrink, steps, device)
        requests, prompt = next(iter(POINTS.values()))
        found[arm][PLANTED] = tree(configs[arm], requests, prompt // shrink, blocks.launch_steps(6), device)
    return found


def launch(
    bench: Bench, pairs: dict[str, int], number: int, fit: Callable[[float, float], int] | None = None
) -> dict[str, PointLaunch]:
    """All of `pairs`' points in one pair of processes. `fit`: pairs of the others, by the seconds until the first
    point, the planted one, was done, and those that its blocks took."""
    found = {}
    began = time.perf_counter()
    with resident(bench, number) as arms:
        said = [f"ready {time.perf_counter() - began:.1f}"]
        for name in pairs:
            found[name] = one = measure_point(replace(bench, pairs=pairs[name]), arms, name, number)
            if name == PLANTED and fit is not None and one.values:
                blocks_s = sum(float(np.nansum(values.timed[PERIOD])) for values in one.values.values()) / 1e9
                count = fit(time.perf_counter() - began, blocks_s * bench.blocks.launch_steps(1))
                pairs.update((other, count) for other in pairs if other != PLANTED)
                said.append(f"{count // SERIES_PAIRS} series a point")
            said.append(f"{name} {time.perf_counter() - began:.1f}")
            if one.failures or one.refused:
                said.append(f"{dict(one.failures)} {one.refused or ''}")
            if one.failures:
                break
    print(f"launch {number}, s: {', '.join(said)}", flush=True)
    return found


def series_of(launches: Sequence[Mapping[str, PointLaunch]], name: str) -> Series:
    """The launches that measured `name`; which others failed stands in the results."""
    return Series(tuple(one[name] for one in launches if name in one and one[name].values))


def names_of(found: Found) -> list[str]:
    return list(dict.fromkeys(name for launched in found.first for name in launched))


def slices(pairs: PairBlocks) -> list[PairBlocks]:
    """One comparison for each stretch of `SERIES_PAIRS` pairs."""
    cuts = [slice(at, at + SERIES_PAIRS) for at in range(0, pairs.base.shape[1], SERIES_PAIRS)]
    return [
        PairBlocks(pairs.base[:, cut], pairs.head[:, cut], pairs.head_first[:, cut], pairs.dropped[:, cut])
        for cut in cuts
    ]


def effects_of(series: Series, metric: str) -> np.ndarray:
    """[series, launches] log head / base."""
    return np.array([launch_effects(part.differences, part.head_first) for part in slices(series.pairs(metric))])


def verdicts(found: Found, name: str, metric: str, limits: Limits) -> tuple[list[PointVerdict], list[PointVerdict]]:
    """Of every series of `name`: with the floor of the others' spread, and with 2 % alone."""
    first, fresh = series_of(found.first, name), series_of(found.fresh, name)
    parts, effects = slices(first.pairs(metric)), effects_of(first, metric)
    again: dict[int, PairBlocks] = {}
    if len(fresh.launches) >= limits.min_launches:
        again = dict(zip(found.doubtful.get(name, ()), slices(fresh.pairs(metric)), strict=False))
    judged, bare = [], []
    for number, part in enumerate(parts):
        data = PointData(f"{name} {number}", metric, part, again.get(number))
        others = np.delete(effects, number, axis=0)
        judged.append(judge_point(data, float(np.nanstd(others, ddof=1)) if len(parts) > 1 else 0.0, limits))
        bare.append(judge_point(data, 0.0, replace(limits, noise_alpha=1e-12)))
    return judged, bare


def self_comparisons(found: Found, name: str, metric: str, limits: Limits) -> dict[str, Any]:
    judged, bare = verdicts(found, name, metric, limits)
    series = series_of(found.first, name)
    effects = effects_of(series, metric)
    means, known = np.nanmean(effects, axis=1), effects[np.isfinite(effects)]
    return {
        "comparisons": len(judged), "verdicts": Counter(one.verdict.value for one in judged),
        "reasons": Counter(one.reason.value for one in judged),
        "stage_2": sum(one.stage == 2 for one in judged), "red": sum(one.verdict is Verdict.FAIL for one in judged),
        "red_with_2_percent_alone": sum(one.verdict is Verdict.FAIL for one in bare),
        "sd_AA_of_a_launch": float(known.std(ddof=1)), "sd_of_a_comparison": float(means.std(ddof=1)),
        "sd_between_launches": float(np.nanmean(np.nanstd(effects, axis=1, ddof=1))),
        "offset_of_launches": np.nanmean(effects, axis=0), "largest_effect": float(np.abs(means).max()),
        "floor_log": max((one.figures.least_effect or 0 for one in judged if one.figures), default=None),
        "median_ns": float(np.nanmedian(series.blocks("base", metric))),
    }  # fmt: skip


def raw(series: Series, metric: str) -> dict[str, Any]:
    """Every block's median, ns, [launches][pairs]."""
    pairs = series.pairs(metric)
    blocks = {"base": np.rint(pairs.base), "head": np.rint(pairs.head)}
    return {**{arm: [[int(x) if np.isfinite(x) else None for x in row] for row in one] for arm, one in blocks.items()},
            "head_first": pairs.head_first.astype(int), "dropped": pairs.dropped.astype(int)}  # fmt: skip


def planted(found: Found, spreads: Mapping[str, float], limits: Limits) -> dict[str, Any]:
    """By the largest spread that any point has in the metric; of the forward, the device's."""
    first, fresh = series_of(found.first, PLANTED), series_of(found.fresh, PLANTED)
    whole = len(fresh.launches) >= limits.min_launches
    told_by = {}
    for metric in (PERIOD, DEVICE, FORWARD):
        if metric in first.metrics("base"):
            data = PointData(PLANTED, metric, first.pairs(metric), fresh.pairs(metric) if whole else None)
            verdict = judge_point(data, spreads.get(metric, spreads.get(DEVICE, 0.0)), limits)
            told_by[metric] = {
                "verdict": verdict.verdict.value, "reason": verdict.reason.value, "stage": verdict.stage,
                **(plain(verdict.figures) or {}), "first": verdict.effects, "fresh": verdict.fresh_effects,
            }  # fmt: skip
    return told_by


def results(found: Found, limits: Limits, about: Mapping[str, Any]) -> dict[str, Any]:
    """All that is known so far; figures from the third launch on."""
    stages = {"first": found.first, "fresh": found.fresh}
    told_of: dict[str, Any] = {
        **about, "launches": {name: len(stage) for name, stage in stages.items()}, "doubtful": found.doubtful,
        "failures": [{name: dict(one.failures) or str(one.refused) for name, one in launched.items() if not one.values}
                     for stage in stages.values() for launched in stage],
        "points": {}, "raw": {},
    }  # fmt: skip
    spreads: dict[str, float] = {}
    for name in names_of(found):
        series = series_of(found.first, name)
        if not series.launches:
            continue
        metrics = [metric for metric in (PERIOD, DEVICE) if metric in series.metrics("base")]
        told_of["raw"][name] = {
            stage: {metric: raw(one, metric) for metric in metrics} for stage, launches in stages.items()
            if (one := series_of(launches, name)).launches
        }  # fmt: skip
        if name != PLANTED and len(series.launches) >= limits.min_launches:
            told_of["points"][name] = {m: self_comparisons(found, name, m, limits) for m in metrics}
            for metric, one in told_of["points"][name].items():
                spreads[metric] = max(spreads.get(metric, 0.0), one["sd_AA_of_a_launch"])
            blocks = [block for one in series.launches for arm in ARMS for block in one.conditions[arm]]
            told_of["points"][name]["machine"] = told(blocks, series.drops)
        told_of["environment"] = dict(series.launches[0].opened["base"]["environment"])
    if spreads and len(series_of(found.first, PLANTED).launches) >= limits.min_launches:
        told_of["planted"] = planted(found, spreads, limits)
    return told_of


def unsure(found: Found, limits: Limits) -> dict[str, list[int]]:
    """Name -> its series that the first launches did not pass, by either metric."""
    doubtful: dict[str, list[int]] = {}
    for name in names_of(found):
        series = series_of(found.first, name)
        if name == PLANTED or len(series.launches) < limits.min_launches:
            continue
        for metric in (PERIOD, DEVICE):
            if metric in series.metrics("base"):
                both = zip(*verdicts(found, name, metric, limits), strict=True)
                bad = [n for n, pair in enumerate(both) if any(one.verdict is not Verdict.PASS for one in pair)]
                doubtful[name] = sorted({*doubtful.get(name, ()), *bad})
    return {name: numbers for name, numbers in doubtful.items() if numbers}


def measure(bench: Bench, pairs: dict[str, int], options: argparse.Namespace, limits: Limits) -> Found:
    """Both stages, as far as the time goes."""
    found, began, longest = Found(), time.perf_counter(), {"first": 0.0, "fresh": 0.0}

    def fit(until_planted_s: float, planted_s: float) -> int:
        """As many pairs a point as leave time for all launches; reading a recording takes about a third of it."""
        alone = until_planted_s * (1 + 0.8 * (options.launches + options.fresh - 1))  # the first finds nothing cached
        free = (options.seconds - 3 - alone) / options.launches / len(POINTS) - 1.0
        series = int(free / (1.3 * planted_s / 6) / SERIES_PAIRS)
        return SERIES_PAIRS * min(max(series, 4), max(1, MOST_SERIES // options.shrink))

    def go(stage: list[Mapping[str, PointLaunch]], name: str, what: dict[str, int], reserve_s: float) -> bool:
        at = time.perf_counter()
        if at - began + 1.1 * longest[name] + reserve_s > options.seconds:
            print(f"{at - began:.0f} s: no time for another {name} launch", flush=True)
            return False
        try:
            fitted = fit if name == "first" and not found.first else None
            stage.append(launch(bench, what, len(found.first) + len(found.fresh), fitted))
        except ArmFailed as error:  # what is measured must come home
            print(f"no arms: {error.arm}: {error}", flush=True)
        longest[name] = max(longest[name], time.perf_counter() - at)
        about = {"wall_s": round(time.perf_counter() - began, 1), "command": " ".join(sys.argv)}
        options.out.write_text(json.dumps(plain(results(found, limits, about))) + "\n")
        return True

    while len(found.first) < options.launches and go(found.first, "first", pairs, options.reserve):
        pass
    found.doubtful = unsure(found, limits)
    print(f"fresh launches for {found.doubtful} and {PLANTED}", flush=True)
    again = {PLANTED: 6, **{name: SERIES_PAIRS * len(numbers) for name, numbers in found.doubtful.items()}}
    while len(found.fresh) < options.fresh and go(found.fresh, "fresh", again, 0.0):
        pass
    return found


def read_back(paths: Sequence[Path]) -> tuple[Found, dict[str, Any]]:
    """Launches from the raw blocks of earlier runs on one machine, in order; and what the files say of themselves."""
    found, commands, wall_s, environment = Found(), [], 0.0, {}
    for path in paths:
        kept = json.loads(path.read_text())
        commands.append(kept["command"])
        wall_s, environment = wall_s + kept["wall_s"], kept["environment"]
        for stage, launches in (("first", found.first), ("fresh", found.fresh)):
            for number in range(kept["launches"][stage]):
                launches.append({
                    name: one_launch(stages[stage], number, environment) for name, stages in kept["raw"].items()
                    if stage in stages
                })  # fmt: skip
    return found, {"wall_s": round(wall_s, 1), "command": commands, "environment": environment}


def one_launch(metrics: Mapping[str, Any], number: int, environment: Mapping[str, Any]) -> PointLaunch:
    """A launch as `raw` wrote it; of a dropped pair the reason is gone."""
    dropped = metrics[PERIOD]["dropped"][number]
    conditions = [Conditions(throttle=0x8 if flag else 0) for flag in dropped]
    values = {
        arm: LaunchValues(
            {metric: np.array(one[arm][number], dtype=np.float64) for metric, one in metrics.items()}, {}, {}
        ) for arm in ARMS
    }  # fmt: skip
    first = [bool(flag) for flag in metrics[PERIOD]["head_first"][number]]
    return PointLaunch({"base": {"environment": environment}}, values, dict.fromkeys(ARMS, conditions), first)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--fresh", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=200.0, help="that all of it may take")
    parser.add_argument("--reserve", type=float, default=0.0, help="seconds that are left to fresh ones")
    parser.add_argument("--shrink", type=int, default=1)
    parser.add_argument("--join", type=Path, nargs="+", help="judge the raw blocks of these results as one run")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    limits, blocks = Limits(pairs=SERIES_PAIRS), Blocks(settle=2)
    if options.join:
        joined, about = read_back(options.join)
        options.out.write_text(json.dumps(plain(results(joined, limits, about))) + "\n")
    else:
        run(options, limits, blocks)
    return show(json.loads(options.out.read_text()))


def run(options: argparse.Namespace, limits: Limits, blocks: Blocks) -> None:
    request = GateRequest((parse_arm("base", []), parse_arm("head", [])), limits=limits, blocks=blocks)
    pairs = {PLANTED: 6, **{name: SERIES_PAIRS * max(1, MOST_SERIES // options.shrink) for name in POINTS}}
    with benched(request) as made:
        points = trees(made.scratch, blocks, options.device, options.shrink)
        bench = replace(made, points=points, values=partial(block_values, exposed=False), timeout_s=100.0,
                        named=frozenset({"runner.model"}))  # fmt: skip
        measure(bench, pairs, options, limits)


def show(found: Mapping[str, Any]) -> int:
    for name, one in found["points"].items():
        for metric in (PERIOD, DEVICE):
            if metric in one:
                told_one = {key: value for key, value in one[metric].items() if key != "offset_of_launches"}
                print(name, metric, told_one)
        print(name, one["machine"])
    for metric, one in found.get("planted", {}).items():
        print(PLANTED, metric, one)
    print("launches", found["launches"], "wall_s", found["wall_s"], "failures", [f for f in found["failures"] if f])
    return 0


if __name__ == "__main__":
    sys.exit(main())
