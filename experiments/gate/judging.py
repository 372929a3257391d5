"""From what both arms measured to verdicts: timed metrics by launches and confirmation, counts exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...analysis.gate.beside import Beside, beside
from ...analysis.gate.block_values import BESIDE, OF_THE_STEP, PACE, PERIOD, gated, step_time
from ...analysis.gate.culprit import culprit
from ...analysis.gate.equal_arms import EqualArms
from ...analysis.gate.exact import EXACT, judge_exact
from ...analysis.gate.limits import Limits
from ...analysis.gate.matching import ALL
from ...analysis.gate.pairs import Floats
from ...analysis.gate.point import PointData, PointVerdict, judge_point
from ...analysis.gate.result import Levels, level_of
from ...analysis.gate.verdict import Reason, Verdict
from .launch import ARMS
from .series import Series

SHARE = "as a share of the step"
Spread = Callable[[str, str], EqualArms | Reason]
"""(point, metric) -> what equal arms showed, or why that is not known."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Point -> launches of stage 1; of stage 2, where it had one."""

    first: Mapping[str, Series]
    fresh: Mapping[str, Series]


def judge(measured: Measured, metrics: Sequence[str], spread: Spread, limits: Limits) -> list[PointVerdict]:
    """A verdict for every metric of every point. `metrics`: none chosen takes all that an arm has."""
    found: list[PointVerdict] = []
    for point, series in measured.first.items():
        fresh = measured.fresh.get(point)
        bad = _unusable(point, [series] if fresh is None else [series, fresh])
        found += [bad] if bad is not None else _of_point(point, (series, fresh), metrics, spread, limits)
    return found


def besides(measured: Measured, limits: Limits) -> tuple[Beside, ...]:
    """What both arms have of `BESIDE`, at every point that could be judged; of pipelined steps their periods, too."""
    found = []
    for point, series in measured.first.items():
        stages = [one for one in (series, measured.fresh.get(point)) if one is not None]
        if _unusable(point, stages) is None:
            tails = (PERIOD, *BESIDE) if PACE in stages[0].metrics("base") else BESIDE
            there = [metric for metric in tails if all(metric in one.metrics(arm) for one in stages for arm in ARMS)]
            found += [beside(point, metric, [one.pairs(metric) for one in stages], limits) for metric in there]
    return tuple(found)


def _unusable(point: str, stages: Sequence[Series]) -> PointVerdict | None:
    for series in stages:
        if series.refused is not None:
            reason, detail = series.refused
            return PointVerdict(point, ALL, Verdict.INCOMPARABLE, reason, detail=detail)
        if series.failures:
            detail = ", ".join(f"{arm}: {why}" for arm, why in sorted(series.failures.items()))
            return PointVerdict(point, ALL, Verdict.ERROR, Reason.ARM_FAILED, detail=detail)
        if not series.launches:
            return PointVerdict(point, ALL, Verdict.ERROR, Reason.NOT_MEASURED)
    return None


def _of_point(
    point: str, stages: tuple[Series, Series | None], metrics: Sequence[str], spread: Spread, limits: Limits
) -> list[PointVerdict]:
    series, fresh = stages
    there = {arm: series.metrics(arm) for arm in ARMS}
    chosen = metrics or [*gated({**there["base"], **there["head"]}), *_counted(series)]
    found: list[PointVerdict] = []
    for metric in chosen:
        if metric in EXACT:
            counts = {arm: [v for one in stages if one for v in one.counts(metric)[arm]] for arm in ARMS}
            found.append(judge_exact(point, metric, counts))
            continue
        lacking = [arm for arm in ARMS if metric not in there[arm]]
        if lacking:
            detail = " and ".join(lacking)
            found.append(PointVerdict(point, metric, Verdict.ERROR, Reason.NOT_MEASURED, detail=detail))
            continue
        data = PointData(point, metric, series.pairs(metric), None if fresh is None else fresh.pairs(metric))
        verdict = judge_point(data, spread(point, metric), limits)
        found.append(_explained(verdict, [one for one in stages if one is not None]))
    return found or [PointVerdict(point, ALL, Verdict.ERROR, Reason.NOT_MEASURED, detail="no gated metric")]


def _counted(series: Series) -> list[str]:
    """Exact metrics that any launch of any arm has: what neither can have (no copy, no graph) is not judged."""
    return [m for m in EXACT if any(v is not None for values in series.counts(m).values() for v in values)]


def _explained(verdict: PointVerdict, stages: Sequence[Series]) -> PointVerdict:
    """A slowdown of the step with the place where it sits."""
    if verdict.metric in OF_THE_STEP and not verdict.detail:
        return replace(verdict, detail=SHARE)
    whole = step_time(stages[0].metrics("base"))
    if verdict.metric != whole or verdict.verdict is not Verdict.FAIL:
        return verdict
    grown = _growth(stages, Series.timed_by_launch)
    phases = {metric.removesuffix("_p50_ns"): values for metric, values in grown.items()}
    places = culprit(float(np.mean(grown[whole])), phases, _growth(stages, Series.ranges_by_launch))
    if not places:
        return replace(verdict, detail="no single phase holds most of it")
    return replace(verdict, detail=f"in {' / '.join(places)}")


def _growth(stages: Sequence[Series], of: Callable[[Series, str], Mapping[str, Floats]]) -> dict[str, Floats]:
    """Name -> [launches of all stages] head - base, ns; names that both arms have in all of them."""
    parts = [(of(series, "base"), of(series, "head")) for series in stages]
    names = [name for name in parts[0][0] if all(name in base and name in head for base, head in parts)]
    return {name: np.concatenate([head[name] - base[name] for base, head in parts]) for name in names}


def levels(measured: Measured) -> dict[tuple[str, str], Levels]:
    """(point, metric) -> both arms' own values, over the launches of all stages."""
    found: dict[tuple[str, str], Levels] = {}
    for point, series in measured.first.items():
        stages = [one for one in (series, measured.fresh.get(point)) if one is not None]
        if any(one.failures or one.refused or not one.launches for one in stages):
            continue
        own = {arm: _values(stages, arm) for arm in ARMS}
        for metric in dict.fromkeys((*own["base"], *own["head"])):
            base, head = (level_of(own[arm].get(metric, ())) for arm in ARMS)
            found[point, metric] = Levels(base, head)
    return found


def _values(stages: Sequence[Series], arm: str) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for series in stages:
        for metric, values in series.timed_by_launch(arm).items():
            found.setdefault(metric, []).extend(values.tolist())
        for metric in EXACT:
            counts = series.counts(metric)[arm]
            found.setdefault(metric, []).extend(None if value is None else float(value) for value in counts)
    return found
