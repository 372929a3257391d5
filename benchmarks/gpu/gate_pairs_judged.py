"""What `gate_pairs.py` measured, judged: verdicts of equal arms and of a planted head, raw blocks, runs joined."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from stepscope.analysis.gate.block_values import DEVICE, PACE, PERIOD, LaunchValues, step_time
from stepscope.analysis.gate.conditions import Conditions, told
from stepscope.analysis.gate.effects import launch_effects
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.pairs import PairBlocks
from stepscope.analysis.gate.point import PointData, PointVerdict, judge_point
from stepscope.analysis.gate.verdict import Verdict
from stepscope.experiments.gate.launch import ARMS, PointLaunch
from stepscope.experiments.gate.series import Series
from stepscope.reports.jsonable import plain

SERIES_PAIRS = 2
FORWARD = "forward_span_p50_ns"
METRICS = (PACE, PERIOD, DEVICE, FORWARD)
"""What is kept of each block. With two steps in flight there is no `DEVICE`: a step's tokens leave on a stream of their
own that the compute stream does not wait for, so nothing marks the end of `sample` on the device, its span is null, and
a sum over all phases is not known. The forward's span is most of it, and is what is held against 3 %."""
PLANTED = "planted"


@dataclass
class Found:
    """Launches of both stages: name -> what was measured; which series the fresh ones are for."""

    first: list[Mapping[str, PointLaunch]] = field(default_factory=list)
    fresh: list[Mapping[str, PointLaunch]] = field(default_factory=list)
    doubtful: dict[str, list[int]] = field(default_factory=dict)


def series_of(launches: Sequence[Mapping[str, PointLaunch]], name: str) -> Series:
    """The launches that measured `name`; which others failed stands in the results."""
    return Series(tuple(one[name] for one in launches if name in one and one[name].values))


def names_of(found: Found, *, planted: bool) -> list[str]:
    names = dict.fromkeys(name for launched in found.first for name in launched)
    return [name for name in names if name.startswith(PLANTED) is planted]


def judged(series: Series) -> list[str]:
    """What a step takes, and its device times; single periods of pipelined steps are shown and not judged."""
    there = series.metrics("base")
    return [metric for metric in METRICS if metric in there and metric in (step_time(there), DEVICE, FORWARD)]


def slices(pairs: PairBlocks) -> list[PairBlocks]:
    """One comparison for each stretch of `SERIES_PAIRS` pairs."""
    cuts = [slice(at, at + SERIES_PAIRS) for at in range(0, pairs.base.shape[1], SERIES_PAIRS)]
    return [
        PairBlocks(
            pairs.base[:, cut], pairs.head[:, cut], pairs.head_first[:, cut], pairs.dropped[:, cut],
            None if pairs.reference is None else pairs.reference[:, cut],
        ) for cut in cuts
    ]  # fmt: skip


def effects_of(series: Series, metric: str) -> np.ndarray:
    """[series, launches] log head / base; of the forward, the difference as a share of the step."""
    return np.array([launch_effects(part.differences, part.head_first) for part in slices(series.pairs(metric))])


def verdicts(found: Found, name: str, metric: str, limits: Limits) -> tuple[list[PointVerdict], list[PointVerdict]]:
    """Of every series of `name`: with the floor of the others' spread, and with 2 % alone."""
    first, fresh = series_of(found.first, name), series_of(found.fresh, name)
    parts, effects = slices(first.pairs(metric)), effects_of(first, metric)
    again: dict[int, PairBlocks] = {}
    if len(fresh.launches) >= limits.min_launches:
        again = dict(zip(found.doubtful.get(name, ()), slices(fresh.pairs(metric)), strict=False))
    with_floor, bare = [], []
    for number, part in enumerate(parts):
        data = PointData(f"{name} {number}", metric, part, again.get(number))
        others = np.delete(effects, number, axis=0)
        with_floor.append(judge_point(data, float(np.nanstd(others, ddof=1)) if len(parts) > 1 else 0.0, limits))
        bare.append(judge_point(data, 0.0, replace(limits, noise_alpha=1e-12)))
    return with_floor, bare


def self_comparisons(found: Found, name: str, metric: str, limits: Limits) -> dict[str, Any]:
    with_floor, bare = verdicts(found, name, metric, limits)
    series = series_of(found.first, name)
    effects = effects_of(series, metric)
    means, known = np.nanmean(effects, axis=1), effects[np.isfinite(effects)]
    return {
        "comparisons": len(with_floor), "verdicts": Counter(one.verdict.value for one in with_floor),
        "reasons": Counter(one.reason.value for one in with_floor),
        "stage_2": sum(one.stage == 2 for one in with_floor),
        "red": sum(one.verdict is Verdict.FAIL for one in with_floor),
        "red_with_2_percent_alone": sum(one.verdict is Verdict.FAIL for one in bare),
        "sd_AA_of_a_launch": float(known.std(ddof=1)), "sd_of_a_comparison": float(means.std(ddof=1)),
        "sd_between_launches": float(np.nanmean(np.nanstd(effects, axis=1, ddof=1))),
        "offset_of_launches": np.nanmean(effects, axis=0), "largest_effect": float(np.abs(means).max()),
        "floor_log": max((one.figures.least_effect or 0 for one in with_floor if one.figures), default=None),
        "median_ns": float(np.nanmedian(series.blocks("base", metric))),
    }  # fmt: skip


def raw(series: Series, metric: str) -> dict[str, Any]:
    """Every block's figure, ns, [launches][pairs]."""
    pairs = series.pairs(metric)
    blocks = {"base": np.rint(pairs.base), "head": np.rint(pairs.head)}
    return {**{arm: [[int(x) if np.isfinite(x) else None for x in row] for row in one] for arm, one in blocks.items()},
            "head_first": pairs.head_first.astype(int), "dropped": pairs.dropped.astype(int)}  # fmt: skip


def planted(found: Found, name: str, spreads: Mapping[str, float], limits: Limits) -> dict[str, Any]:
    """`spreads`: by metric, of the equal arms of the same size, as the gate's own calibration is of the point."""
    first, fresh = series_of(found.first, name), series_of(found.fresh, name)
    whole = len(fresh.launches) >= limits.min_launches
    told_by = {}
    for metric in judged(first):
        data = PointData(name, metric, first.pairs(metric), fresh.pairs(metric) if whole else None)
        verdict = judge_point(data, spreads.get(metric, 0.0), limits)
        seen = launch_effects(fresh.pairs(metric).differences, fresh.pairs(metric).head_first) if fresh.launches else ()
        told_by[metric] = {
            "verdict": verdict.verdict.value, "reason": verdict.reason.value, "stage": verdict.stage,
            **(plain(verdict.figures) or {}), "first": verdict.effects, "fresh": seen,
        }  # fmt: skip
    return told_by


def size_in(name: str) -> str:
    """Of decode-32x6144: 32x6144."""
    return name.rpartition("-")[2]


def results(found: Found, limits: Limits, about: Mapping[str, Any]) -> dict[str, Any]:
    """All that is known so far; figures from the third launch on."""
    stages = {"first": found.first, "fresh": found.fresh}
    told_of: dict[str, Any] = {
        **about, "launches": {name: len(stage) for name, stage in stages.items()}, "doubtful": found.doubtful,
        "failures": [{name: dict(one.failures) or str(one.refused) for name, one in launched.items() if not one.values}
                     for stage in stages.values() for launched in stage],
        "points": {}, "planted": {}, "raw": {},
    }  # fmt: skip
    spreads: dict[str, dict[str, float]] = {}  # requests x tokens -> metric
    for name in [*names_of(found, planted=False), *names_of(found, planted=True)]:
        series = series_of(found.first, name)
        if not series.launches:
            continue
        told_of["raw"][name] = {
            stage: {metric: raw(one, metric) for metric in METRICS if metric in one.metrics("base")}
            for stage, launches in stages.items() if (one := series_of(launches, name)).launches
        }  # fmt: skip
        told_of["environment"] = dict(series.launches[0].opened["base"]["environment"])
        if len(series.launches) < limits.min_launches:
            continue
        if name.startswith(PLANTED):
            told_of["planted"][name] = planted(found, name, spreads.get(size_in(name), {}), limits)
            continue
        shown = [metric for metric in METRICS if metric in series.metrics("base")]
        told_of["points"][name] = {m: self_comparisons(found, name, m, limits) for m in shown}
        spreads[size_in(name)] = {m: told_of["points"][name][m]["sd_AA_of_a_launch"] for m in shown}
        blocks = [block for one in series.launches for arm in ARMS for block in one.conditions[arm]]
        told_of["points"][name]["machine"] = told(blocks, series.drops)
    return told_of


def unsure(found: Found, limits: Limits) -> dict[str, list[int]]:
    """Name -> its series that the first launches did not pass, by any judged metric."""
    doubtful: dict[str, list[int]] = {}
    for name in names_of(found, planted=False):
        series = series_of(found.first, name)
        if len(series.launches) < limits.min_launches:
            continue
        for metric in judged(series):
            both = zip(*verdicts(found, name, metric, limits), strict=True)
            bad = [n for n, pair in enumerate(both) if any(one.verdict is not Verdict.PASS for one in pair)]
            doubtful[name] = sorted({*doubtful.get(name, ()), *bad})
    return {name: numbers for name, numbers in doubtful.items() if numbers}


def joined(groups: Sequence[Sequence[Path]], limits: Limits) -> dict[str, Any]:
    """Each group, the files of one machine, as one run; of several groups all of them, and the comparisons counted.

    Launches of two machines make no comparison: each machine's series are held against its own.
    """
    machines = [results(*read_back(paths, limits)) for paths in groups]
    if len(machines) == 1:
        return machines[0]
    total: dict[str, Counter[str]] = {}
    for machine in machines:
        for point in machine["points"].values():
            for metric in METRICS:
                if metric in point:
                    words = {"comparisons": point[metric]["comparisons"], **point[metric]["verdicts"]}
                    total.setdefault(metric, Counter()).update(words)
    return {"machines": machines, "total": total}


def read_back(paths: Sequence[Path], limits: Limits) -> tuple[Found, Limits, dict[str, Any]]:
    """Launches from the raw blocks of earlier runs on one machine, in order; and what the files say of themselves.

    Series that fresh launches were for keep their numbers only where one file has the point.
    """
    found, commands, wall_s, environment = Found(), [], 0.0, {}
    for path in paths:
        kept = json.loads(path.read_text())
        commands.append(kept["command"])
        wall_s, environment = wall_s + kept["wall_s"], kept["environment"]
        names = {name: _name(name, kept["raw"]) for name in kept["raw"]}
        for stage, launches in (("first", found.first), ("fresh", found.fresh)):
            for number in range(kept["launches"][stage]):
                launches.append({
                    names[name]: _launch(stages[stage], number, environment) for name, stages in kept["raw"].items()
                    if stage in stages and number < len(next(iter(stages[stage].values()))["base"])
                })  # fmt: skip
        found.doubtful.update(kept["doubtful"])
    return found, limits, {"wall_s": round(wall_s, 1), "command": commands, "environment": environment}


def _name(name: str, points: Mapping[str, Any]) -> str:
    """Earlier runs did not say which point the planted head was of: their first one."""
    return name if name != PLANTED else f"{PLANTED}-{next(one for one in points if one != PLANTED).split('-')[1]}"


def _launch(metrics: Mapping[str, Any], number: int, environment: Mapping[str, Any]) -> PointLaunch:
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


def show(found: Mapping[str, Any]) -> int:
    for machine in found.get("machines", [found]):
        for name, one in machine["points"].items():
            for metric in METRICS:
                if metric in one:
                    print(name, metric, {key: value for key, value in one[metric].items() if key not in _LONG})
            print(name, one["machine"])
        for name, metrics in machine["planted"].items():
            for metric, one in metrics.items():
                print(name, metric, one)
        failed = [f for f in machine["failures"] if f]
        print("launches", machine["launches"], "wall_s", machine["wall_s"], "failures", failed)
    if "total" in found:
        print("total", found["total"])
    return 0


_LONG = ("offset_of_launches", "reasons", "sd_of_a_comparison", "sd_between_launches")
