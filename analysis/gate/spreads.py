"""What a calibration says to people: how much equal arms differed, and what a gate would therefore find."""

from __future__ import annotations

from dataclasses import dataclass

from .detectable import GatePlan


@dataclass(frozen=True, slots=True)
class Spread:
    """Of a metric of a point: standard deviation between launches of equal arms, and the plan of a gate with it."""

    point: str
    metric: str
    sd: float
    launches: int
    plan: GatePlan
