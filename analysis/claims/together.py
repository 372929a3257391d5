"""What the launches of several runs on as many machines say together.

A figure's mean over launches differs between machines for two reasons: launches scatter, and machines differ. With
means m_i of k machines and their variances v_i (of the launches: s^2 / n) the variance between machines is, by moments,

    t = max(0, (sample variance of the m_i) - (mean of the v_i))

and the mean of all weighs each by 1 / (v_i + t). Its interval is Student's with Satterthwaite's degrees of freedom: t
has k - 1, v_i has n_i - 1. Where the machines differ by more than their launches explain, the interval is as wide as
k machines allow: with two of them very wide. It covered the truth in 82 to 95 % of simulated draws (5 and 8 launches of
2 to 5 machines), least often where machines differ about as much as launches do.

(Hedges 1983 for the moments, each machine counting alike; with two machines they are those of DerSimonian and Laird
1986. Satterthwaite 1946 for the degrees of freedom.)
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from ..blocks import CONFIDENCE, Interval, over_launches
from .judge import Judged, half_width, state_of

LEAST = 2
"""Launches of a machine that say how they scatter."""


def pooled(machines: Sequence[Sequence[float]]) -> Interval | None:
    """The mean of machines and its 95 % interval, of values by launch. Machines with a single launch are left out where
    another has more: of one machine it is the launches' own. None without any launch.
    """
    runs = [values for values in machines if len(values) >= LEAST]
    if len(runs) < 2:
        return over_launches(max(machines, key=len, default=()))
    means = [statistics.fmean(values) for values in runs]
    within = [statistics.variance(values) / len(values) for values in runs]
    between = max(0.0, statistics.variance(means) - statistics.fmean(within))
    weights = _weights([value + between for value in within])
    parts = [weight**2 * value for weight, value in zip(weights, within, strict=True)]
    machine = between * sum(weight**2 for weight in weights)
    spread = sum(parts) + machine
    mean, count = sum(w * m for w, m in zip(weights, means, strict=True)), sum(map(len, runs))
    if not spread:
        return Interval(mean, mean, mean, count)
    lost = sum(part**2 / (len(values) - 1) for part, values in zip(parts, runs, strict=True))
    free = spread**2 / (lost + machine**2 / (len(runs) - 1))
    from scipy.special import stdtrit

    half = float(stdtrit(free, 0.5 + CONFIDENCE / 2)) * spread**0.5
    return Interval(mean, mean - half, mean + half, count)


def _weights(variances: Sequence[float]) -> list[float]:
    """Their inverses, adding up to 1; equal ones where the launches of a machine agree to the last digit."""
    inverse = [1 / value for value in variances] if all(variances) else [1.0] * len(variances)
    return [value / sum(inverse) for value in inverse]


def judged_together(found: Sequence[Judged]) -> Judged:
    """The finding in all runs: what all decide that have two launches or more, or else what the pooled interval says.

    Where one contradicts another that is nothing, as a rule: machines that differ so much make it much wider than that.
    """
    interval = pooled([one.by_launch for one in found])
    if interval is None:
        return found[0]
    allowed = min((one.allowed for one in found if one.allowed is not None), default=None)
    half = half_width(interval)
    precise = None if allowed is None else half is not None and half <= allowed
    state = state_of(found[0].finding, interval, precise)
    told = [one.state for one in found if len(one.by_launch) >= LEAST]
    if len(told) > 1 and len(set(told)) == 1 and told[0] != "open":
        state = told[0]
    values = tuple(value for one in found for value in one.by_launch)
    return replace(
        found[0], state=state, interval=interval, by_launch=values, allowed=allowed, precise=precise, reason=""
    )


def contradicts(one: Judged, two: Judged) -> bool:
    """Whether the finding is met in one run and broken in the other."""
    return {one.state, two.state} == {"met", "broken"}
