"""Before a gate measures: what it will find by the calibration that fits, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from ...analysis.gate.detectable import GatePlan, plan
from ...analysis.gate.equal_arms import EqualArms
from ...analysis.gate.fingerprint import IDENTITY, has_no_gpu
from ...analysis.gate.limits import Limits
from ...instrumentation.environment import fingerprint
from ...instrumentation.telemetry import TelemetrySampler
from ...reports.formatting import percent
from .calibrations import Book, books, work_of
from .points import Points
from .request import GateRequest
from .same_work import machine_of

_ASSUMED = "assumed: 10 s until both arms are ready, 1.2 s a block"


@dataclass(frozen=True, slots=True)
class Expected:
    """By the calibration in `book`: what the weakest of the points shows; seconds of a launch, None if not known."""

    book: Book
    plan: GatePlan
    launch_s: float | None


def announced(request: GateRequest, points: Points, today: date) -> Iterator[str]:
    """Lines for people. The arms' own words decide later whether the calibration is of this machine and work."""
    limits, steps = request.limits, request.blocks.steps
    yield (
        f"plan: {counted(len(points))}, {limits.launches} launches of {limits.pairs} pairs of {steps}-step blocks, and"
        " as many again for what must be confirmed"
    )
    found = expected(request, points, today)
    if found is None:
        yield (
            "plan: no calibration here fits these points and blocks, so no time can fail; run perf gate calibrate with"
            " the same spec, --pairs and --block-steps"
        )
        yield f"plan: {_cost(plan(0.0, len(points), limits).first_stage_s)} ({_ASSUMED})"
        return
    yield (
        f"plan: nothing below {percent(found.plan.least_effect)} of the step's period is called a regression, and a"
        f" slowdown of {percent(found.plan.detectable)} is flagged {found.plan.power * 100:.0f} times of 100"
        f" (calibration {found.book.path})"
    )
    if found.launch_s is None:
        yield f"plan: {_cost(found.plan.first_stage_s)} ({_ASSUMED})"
    else:
        yield f"plan: {_cost(limits.launches * found.launch_s)} (as the calibration took)"


def expected(request: GateRequest, points: Points, today: date) -> Expected | None:
    """Of the newest calibration that has the step of every point, as this gate cuts its blocks; None without one."""
    here = {} if request.arms[0].python else _here()  # another interpreter has its own versions, and says them later
    for book in books(request.calibration):
        if not points or _elsewhere(book.machine, here):
            continue
        now = (book.machine, request.limits.pairs, request.blocks.steps, today)
        works = {name: work_of(tree) for name, tree in points.items()}
        wanted = {(name, work): book.step_time(name, work) for name, work in works.items()}
        spreads = [book.spread(*at, metric, now, request.limits) for at, metric in wanted.items()]
        known = [equal for equal in spreads if isinstance(equal, EqualArms)]
        if len(known) == len(spreads):
            times = [e.launch_s for e in book.entries if wanted.get((e.point, e.work)) == e.metric]
            whole = [seconds for seconds in times if seconds is not None]
            launch_s = sum(whole) if len(whole) == len(points) else None
            return Expected(book, plan(_weakest(known, request.limits), len(points), request.limits), launch_s)
    return None


def _weakest(known: Sequence[EqualArms], limits: Limits) -> EqualArms:
    return max(known, key=lambda equal: float(equal.floor(limits.launches, limits)))


def _here() -> dict[str, Any]:
    """What this process knows of the machine; the arms' own words come with the first launch."""
    sampler = TelemetrySampler()
    try:
        return machine_of({"environment": fingerprint(sampler.environment()), "device": "cuda"})
    finally:
        sampler.close()


def _elsewhere(machine: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether a field that both know differs. A modelled GPU is not for this process to say."""
    known = [field for field in IDENTITY if machine.get(field) is not None and here.get(field) is not None]
    return any(machine[field] != here[field] for field in known if not (field == "gpu" and has_no_gpu(machine)))


def _cost(first_s: float) -> str:
    return f"about {told_time(first_s)}, and up to {told_time(2 * first_s)} where everything is confirmed"


def counted(points: int) -> str:
    """ "1 point", "2 points"."""
    return f"{points} point{'' if points == 1 else 's'}"


def told_time(seconds: float) -> str:
    """For people: 12.3 as "12 s", 600 as "10 min"."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
