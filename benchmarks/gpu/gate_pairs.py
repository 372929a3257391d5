"""Equal arms of the gate on a GPU, and a head whose device time is 3 % longer: `python benchmarks/gpu/gate_pairs.py`.

    launch   two processes of the same commit, resident together; all points are measured in it, one after another
    A/A      per point a row of series of 4 pairs (A B | B A | A B | B A, blocks of 50 steps): each series is a
             self-comparison over the launches, so the comparisons share their launches
    planted  base and head differ in one layer of 30: 3 % of the device time; 6 pairs a launch, then fresh launches

No calibration of 20 launches was made: it would take as long again. The floor of a comparison is 2 %, or comes from the
spread of all other series of its point, whichever is larger; `red_without_spread` counts with 2 % alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from stepscope.analysis.gate.block_values import DEVICE, PERIOD, block_values
from stepscope.analysis.gate.conditions import told
from stepscope.analysis.gate.effects import launch_effects
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.pairs import PairBlocks
from stepscope.analysis.gate.point import PointData, judge_point
from stepscope.analysis.gate.verdict import Verdict
from stepscope.experiments.gate.arms import parse_arm
from stepscope.experiments.gate.launch import ARMS, Bench, PointLaunch, measure_point, resident
from stepscope.experiments.gate.points import Blocks
from stepscope.experiments.gate.procedure import benched
from stepscope.experiments.gate.request import GateRequest
from stepscope.experiments.gate.series import Series
from stepscope.reports.jsonable import plain

SERIES_PAIRS = 4
PLANTED = "planted"
POINTS = {  # name -> (model, requests, series)
    "micro-8": ("micro", 8, 18), "micro-64": ("micro", 64, 18), "small-16": ("small-1024", 16, 16),
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 4096,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False, "max_position_embeddings": 8192,
}  # fmt: skip
LAYERS = {"base": 30, "head": 31}


def tree(model: str, requests: int, steps: int, device: str) -> dict[str, Any]:
    return {
        "workload": {"regime": "steady", "settings": {"num_reqs": requests}},
        "runner": {"graph_mode": "full", "model": model, "capture_sizes": [requests]}, "device": device,
        "measure": {"steps": steps},
    }  # fmt: skip


def trees(scratch: Path, blocks: Blocks, device: str, shrink: int) -> dict[str, dict[str, Any]]:
    """arm -> name -> what it measures. On a CPU the layers are few: it is only a rehearsal there."""
    found: dict[str, dict[str, Any]] = {arm: {} for arm in ARMS}
    for arm in ARMS:
        for name, (model, requests, series) in POINTS.items():
            steps = blocks.launch_steps(SERIES_PAIRS * (series // shrink))
            found[arm][name] = tree(model if device == "cuda" else "micro", requests, steps, device)
        layers = LAYERS[arm] if device == "cuda" else LAYERS[arm] // 15
        config = scratch / arm / "config.json"
        config.write_text(json.dumps({**LLAMA, "num_hidden_layers": layers}))
        model = str(config) if device == "cuda" else "micro"
        found[arm][PLANTED] = tree(model, 16, blocks.launch_steps(6), device)
    return found


def launch(bench: Bench, pairs: Mapping[str, int], number: int) -> dict[str, PointLaunch]:
    """All of `pairs`' points in one pair of processes."""
    found = {}
    began = time.perf_counter()
    with resident(bench, number) as arms:
        print(f"launch {number}: ready after {time.perf_counter() - began:.1f} s", flush=True)
        for name, count in pairs.items():
            found[name] = measure_point(replace(bench, pairs=count), arms, name, number)
            print(f"  {name}: {time.perf_counter() - began:.1f} s {dict(found[name].failures)}"
                  f" {found[name].refused or ''}", flush=True)  # fmt: skip
            if found[name].failures:
                break
    return found


def measured(launches: Sequence[Mapping[str, PointLaunch]], name: str) -> Series:
    """The launches that measured `name`; which others failed stands in the results."""
    return Series(tuple(one[name] for one in launches if name in one and one[name].values))


def slices(pairs: PairBlocks) -> list[PairBlocks]:
    """One comparison for each stretch of `SERIES_PAIRS` pairs."""
    cuts = [slice(at, at + SERIES_PAIRS) for at in range(0, pairs.base.shape[1], SERIES_PAIRS)]
    return [
        PairBlocks(pairs.base[:, cut], pairs.head[:, cut], pairs.head_first[:, cut], pairs.dropped[:, cut])
        for cut in cuts
    ]


def self_comparisons(series: Series, metric: str, limits: Limits) -> dict[str, Any]:
    parts = slices(series.pairs(metric))
    effects = np.array([launch_effects(part.differences, part.head_first) for part in parts])
    verdicts, bare = [], []
    for number, part in enumerate(parts):
        spread = float(np.nanstd(np.delete(effects, number, axis=0), ddof=1)) if len(parts) > 1 else 0.0
        verdicts.append(judge_point(PointData("aa", metric, part), spread, limits))
        bare.append(judge_point(PointData("aa", metric, part), 0.0, replace(limits, noise_alpha=0.0)))
    words = [one.verdict.value for one in verdicts]
    suspects = sum(one.verdict is not Verdict.PASS and (one.figures is not None and (one.figures.low or 0) > 0
                   and (one.figures.effect or 0) >= limits.min_effect) for one in bare)  # fmt: skip
    return {
        "comparisons": len(parts), **{word: words.count(word) for word in sorted(set(words))},
        "reasons": sorted({one.reason.value for one in verdicts}), "flagged_with_2_percent_alone": suspects,
        "sd_of_a_comparison": float(np.std([np.nanmean(row) for row in effects], ddof=1)) if len(parts) > 1 else None,
        "sd_AA_between_launches": float(np.nanmean(np.nanstd(effects, axis=1, ddof=1))),
        "largest_effect": float(np.max(np.abs(np.nanmean(effects, axis=1)))), "median_ns": float(
            np.nanmedian(series.blocks("base", metric))
        ), "effects": effects.tolist(),
    }  # fmt: skip


def planted(first: Series, fresh: Series, sd: float, limits: Limits) -> dict[str, Any]:
    found = {}
    for metric in first.metrics("base"):
        if metric in (PERIOD, DEVICE, "forward_span_p50_ns"):
            verdict = judge_point(PointData(PLANTED, metric, first.pairs(metric), fresh.pairs(metric)), sd, limits)
            found[metric] = plain(verdict) | {"verdict": verdict.verdict.value, "reason": verdict.reason.value}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--fresh", type=int, default=3)
    parser.add_argument("--shrink", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    limits, blocks = Limits(pairs=SERIES_PAIRS), Blocks(settle=2)
    request = GateRequest((parse_arm("base", []), parse_arm("head", [])), limits=limits, blocks=blocks)
    began = time.perf_counter()
    with benched(request) as made:
        points = trees(made.scratch, blocks, options.device, options.shrink)
        bench = replace(made, points=points, values=partial(block_values, exposed=False))
        pairs = {name: SERIES_PAIRS * (series // options.shrink) for name, (_, _, series) in POINTS.items()}
        launches = [launch(bench, {**pairs, PLANTED: 6}, number) for number in range(options.launches)]
        extra = [launch(bench, {PLANTED: 6}, options.launches + number) for number in range(options.fresh)]
    found: dict[str, Any] = {
        "wall_s": round(time.perf_counter() - began, 1), "command": " ".join(sys.argv), "launches": len(launches),
        "failures": {number: dict(one.failures) for number, launched in enumerate([*launches, *extra])
                     for one in launched.values() if one.failures}, "points": {},
    }  # fmt: skip
    spreads = []
    for name in POINTS:
        series = measured(launches, name)
        metrics = [metric for metric in (PERIOD, DEVICE) if metric in series.metrics("base")]
        found["points"][name] = {metric: self_comparisons(series, metric, limits) for metric in metrics}
        spreads += [one["sd_AA_between_launches"] for one in found["points"][name].values()]
        blocks_seen = [block for one in series.launches for arm in ARMS for block in one.conditions[arm]]
        found["points"][name]["machine"] = told(blocks_seen, series.drops)
    first, fresh = (measured(part, PLANTED) for part in (launches, extra))
    found["planted"] = planted(first, fresh, max(spreads), limits)
    found["environment"] = dict(first.launches[0].opened["base"]["environment"])
    options.out.write_text(json.dumps(plain(found), indent=1) + "\n")
    for name, one in found["points"].items():
        for metric in (PERIOD, DEVICE):
            if metric in one:
                print(name, metric, {key: value for key, value in one[metric].items() if key != "effects"})
        print(name, one["machine"])
    for metric, one in found["planted"].items():
        print(PLANTED, metric, one["verdict"], one["reason"], one["stage"], one["figures"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
