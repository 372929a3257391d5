"""Figures beside the verdict: how the arms differ in what is not gated, the tail of the step's period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .effects import estimate, launch_effects
from .limits import Limits
from .pairs import PairBlocks


@dataclass(frozen=True, slots=True)
class Beside:
    """Of a metric of a point: the fraction by which head is slower and its two-sided 90 % interval; no verdict.

    None where too few pairs were whole.
    """

    point: str
    metric: str
    effect: float | None
    low: float | None
    high: float | None
    launches: int


def beside(point: str, metric: str, stages: Sequence[PairBlocks], limits: Limits) -> Beside:
    """The figures over the launches of all `stages`."""
    found = estimate(np.concatenate([launch_effects(blocks.differences, blocks.head_first) for blocks in stages]))
    values = (found.mean, found.bound(1 - limits.confidence), found.bound(limits.confidence))
    effect, low, high = (float(np.expm1(value)) if np.isfinite(value) else None for value in values)
    return Beside(point, metric, effect, low, high, int(found.launches))
