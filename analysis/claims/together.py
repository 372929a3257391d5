"""What the launches of two runs on two machines say together.

A figure's mean over launches differs between machines for two reasons: launches scatter, and machines differ. With
means m1, m2 and their variances v1, v2 (of the launches: s^2 / n) the variance between machines is, by moments,

    t = max(0, (m1 - m2)^2 / 2 - (v1 + v2) / 2)

and the mean of both weighs each by 1 / (v + t). Its interval is Student's with Satterthwaite's degrees of freedom: t
has one, v has n - 1. Where the machines differ by more than their launches explain, the interval is as wide as
two machines allow: very wide.

(DerSimonian and Laird 1986 for the moments; Satterthwaite 1946 for the degrees of freedom.)
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from ..blocks import CONFIDENCE, Interval, over_launches
from .judge import Judged, half_width, state_of

LEAST = 2
"""Launches of a machine that say how they scatter."""


def pooled(one: Sequence[float], two: Sequence[float]) -> Interval | None:
    """The mean of two machines and its 95 % interval; of the only one with two launches or more, if it is one."""
    if len(one) < LEAST or len(two) < LEAST:
        return over_launches(one if len(one) >= len(two) else two)
    from scipy.special import stdtrit

    means = [statistics.fmean(values) for values in (one, two)]
    within = [statistics.variance(values) / len(values) for values in (one, two)]
    between = max(0.0, (means[0] - means[1]) ** 2 / 2 - sum(within) / 2)
    variances = [value + between for value in within]
    if not all(variances):  # a machine whose launches agree to the last digit
        variances = [1.0, 1.0]
    weights = [value / sum(1 / each for each in variances) for value in (1 / variances[0], 1 / variances[1])]
    parts = [weight**2 * value for weight, value in zip(weights, within, strict=True)]
    machine = between * sum(weight**2 for weight in weights)
    spread = sum(parts) + machine
    mean, count = sum(w * m for w, m in zip(weights, means, strict=True)), len(one) + len(two)
    if not spread:
        return Interval(mean, mean, mean, count)
    free = spread**2 / (sum(p**2 / (len(v) - 1) for p, v in zip(parts, (one, two), strict=True)) + machine**2)
    half = float(stdtrit(free, 0.5 + CONFIDENCE / 2)) * spread**0.5
    return Interval(mean, mean - half, mean + half, count)


def judged_together(one: Judged, two: Judged) -> Judged:
    """The finding in both runs: what both decide, or else what the pooled interval says.

    Where one contradicts the other that is nothing: machines that differ so much make it many times as wide as that.
    """
    interval = pooled(one.by_launch, two.by_launch)
    if interval is None:
        return one
    known = [allowed for allowed in (one.allowed, two.allowed) if allowed is not None]
    allowed = min(known) if known else None
    half = half_width(interval)
    precise = None if allowed is None else half is not None and half <= allowed
    state = state_of(one.finding, interval, precise)
    if one.state == two.state != "open":
        state = one.state
    values = (*one.by_launch, *two.by_launch)
    return replace(one, state=state, interval=interval, by_launch=values, allowed=allowed, precise=precise, reason="")


def contradicts(one: Judged, two: Judged) -> bool:
    """Whether the finding is met in one run and broken in the other."""
    return {one.state, two.state} == {"met", "broken"}
