"""How long a sweep will take, before it: from points that were measured, else from what its steps have to compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .launches import launches
from .plan import Point
from .resolve import measured_steps, workload_of

START_S = 4.0
"""A process: Python, torch, the device."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds: a point (its runner, recording and figures), a step (the host's side), a token."""

    point_s: float
    step_s: float
    token_s: float


RATES = {"sim": Rates(0.5, 2.5e-3, 40e-6), "cpu": Rates(0.5, 2.5e-3, 40e-6), "cuda": Rates(1.0, 6e-3, 3e-6)}
"""Fitted to the default sweep: on two cores of a server, with the small models that stand in for the device's work, and
on an H200 with llama-1b.
"""
PAIR_S = {"tiny": 34e-9, "tiny-6": 100e-9, "micro": 6e-9}
"""A (query, key) pair of the models that stand in; others run on a GPU, or look back at little."""
SLOWEST = 3.0
"""Machines differ by so much from the one that these constants are of."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds for all points, and where they come from."""

    seconds: float
    num_measured: int
    num_points: int

    def text(self) -> str:
        """One line."""
        if not self.num_points:
            return "nothing is left to measure"
        if self.num_measured == self.num_points:
            return f"about {duration(self.seconds)}: each of these points was measured before"
        known = f"; {self.num_measured} of {self.num_points} as measured before" if self.num_measured else ""
        low, high = duration(self.seconds / SLOWEST), duration(self.seconds * SLOWEST)
        return f"about {duration(self.seconds)} ({low} to {high}, by the number of steps and tokens{known})"


def estimate(points: Sequence[Point], measured_s: Mapping[str, float], workers: int = 1) -> Estimate:
    """For `points`, of which `measured_s` took so long before (by key), on so many workers at a time."""
    groups = launches(points)
    own = sum(group[0].spec.measure.interleave is not None for group in groups)
    processes = max(own, 1) if own == len(groups) else own + 1
    seconds = START_S * processes
    for group in groups:
        before = [measured_s[point.key] for point in group if point.key in measured_s]
        seconds += max(before) if before else sum(_guess(point) for point in group)
    known = sum(point.key in measured_s for point in points)
    return Estimate(seconds / max(workers, 1), known, len(points))


def _guess(point: Point) -> float:
    """From the steps of the point and the tokens in them, prompts included."""
    spec = point.spec
    workload = workload_of(spec)
    tokens = sum(request.prompt_len + request.output_len for request in workload.requests)
    asked = measured_steps(spec.measure, spec.device)
    steps = (asked or _steps_until_answered(workload.requests)) + (spec.measure.warmup_steps or 0)
    rows = min(workload.scheduler.max_num_seqs, len(workload.requests))
    prompts = sum(request.prompt_len for request in workload.requests)
    pairs = sum(request.prompt_len**2 // 2 for request in workload.requests)
    rates = RATES.get(spec.device, RATES["cuda"])
    computed = min(tokens, prompts + steps * rows)
    return rates.point_s + steps * rates.step_s + computed * rates.token_s + pairs * PAIR_S.get(spec.runner.model, 0.0)


def _steps_until_answered(requests: Sequence[object]) -> int:
    return max((int(getattr(request, "output_len", 1)) for request in requests), default=1)


def duration(seconds: float) -> str:
    """`45 s`, `3 min`, `2 h 5 min`."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
