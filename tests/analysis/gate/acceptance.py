"""Trials of the gate on the simulator's machines: how often each verdict falls. The machine is unknown to the gate.

Each block of trials has an A/A calibration of its own, as each user's machine has one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from stepscope.analysis.gate.effects import estimate, launch_effects
from stepscope.analysis.gate.equal_arms import EqualArms, equal_arms
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.stages import first_stage, second_stage
from stepscope.analysis.gate.suite import geomean_confirmed, geomean_suspect

from .simulator import Machine, Plan, paired
from .usual_rules import chunks

LIMITS = Limits()
PLAN = Plan()


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of trials. `covered`: the two-sided 90 % interval of one stage holds the true effect."""

    fail: float
    passed: float
    stage_two: float
    single_fail: float
    covered: float


def effects_of(
    machine: Machine, trials: int, effect: float, rng: np.random.Generator, plan: Plan = PLAN, points: int = 1
) -> np.ndarray:
    """[trials, points, launches]."""
    base, head = paired(machine, trials, effect, rng, plan, points)
    return launch_effects(np.log(head / base), np.broadcast_to(plan.head_first, base.shape))


def calibrated(machine: Machine, rng: np.random.Generator, limits: Limits = LIMITS) -> EqualArms:
    plan = Plan(launches=limits.calibration_launches)
    return equal_arms(effects_of(machine, 1, 0.0, rng, plan)[0, 0])


def rates(machine: Machine, effect: float, trials: int, seed: int) -> Rates:
    """Points on their own, through both stages."""
    rng = np.random.default_rng([seed, round(1000 * (1 + effect))])
    rows = []
    for size in chunks(trials, 50):
        sd = calibrated(machine, rng)
        first, fresh = (effects_of(machine, size, effect, rng)[:, 0] for _ in range(2))
        flag, good = first_stage(first, sd, LIMITS)
        again, together, fine = second_stage(first, fresh, sd, LIMITS)
        found = estimate(first)
        low, high = found.bound(0.05), found.bound(0.95)
        rows.append(np.stack([~good & (again | together), good | fine, ~good, flag,
                              (low <= np.log1p(effect)) & (np.log1p(effect) <= high)]))
    return Rates(*(float(share) for share in np.concatenate(rows, axis=1).mean(axis=1)))


def red_sweeps(machine: Machine, sweeps: int, seed: int, effect: float = 0.0, points: int = 24) -> float:
    """Share of sweeps that end red: a confirmed point, or all points together."""
    rng = np.random.default_rng(seed)
    red = 0
    for size in chunks(sweeps, 10):
        sd = calibrated(machine, rng)
        first, fresh = (effects_of(machine, size, effect, rng, points=points) for _ in range(2))
        _, good = first_stage(first, sd, LIMITS)
        again, together, _ = second_stage(first, fresh, sd, LIMITS)
        confirmed = (~good & (again | together)).any(axis=1)
        uniform = geomean_suspect(first, LIMITS) & geomean_confirmed(first, fresh, LIMITS)
        red += int((confirmed | uniform).sum())
    return red / sweeps


def order_alarms(machine: Machine, trials: int, seed: int, *, fixed: bool) -> float:
    """Share of A/A trials flagged by one stage with a 0.5 % floor while each launch slows down by 10 %."""
    rng = np.random.default_rng(seed)
    plan = Plan(fixed_order=fixed, ramp=np.log(1.1))
    blocks = [paired(machine, size, 0.0, rng, plan) for size in chunks(trials)]
    found = estimate(np.concatenate([np.median(np.log(head / base), axis=-1)[:, 0] for base, head in blocks]))
    return float(((found.bound(1 - LIMITS.confidence) > 0) & (found.mean >= np.log1p(0.005))).mean())
