"""Arms that took turns, block by block, in several launches: differences within a launch, intervals over launches.

    launch 1   first  last  skip | skip  last  first | first ...      a block is one of these, a round is one of each
    block      the median of its periods
    launch     the median over rounds of the difference of two arms' blocks: what drifts falls on both alike
    figure     the mean over launches, and Student's interval: launches are what was repeated, steps are not
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .stats import Number, median

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Block:
    """One turn of one arm: its place among the turns of all arms, and the period of each step in ns."""

    order: int
    periods_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over launches. `low` and `high` bound it at 95 %; None with fewer than two launches."""

    mean: float
    low: float | None
    high: float | None
    launches: int


def round_differences(left: Sequence[Block], right: Sequence[Block]) -> list[Fraction]:
    """Median of each block of `left` less that of the block of `right` in the same round, in ns."""
    pairs = zip(_medians(left), _medians(right), strict=False)  # an interrupted launch lacks some arms' last blocks
    return [Fraction(a) - Fraction(b) for a, b in pairs if a is not None and b is not None]


def _medians(blocks: Sequence[Block]) -> list[Number | None]:
    return [median(block.periods_ns) for block in sorted(blocks, key=lambda block: block.order)]


def launch_difference(left: Sequence[Block], right: Sequence[Block]) -> float | None:
    """What one launch says of two arms: the median over its rounds; None without a round."""
    found = round_differences(left, right)
    return float(np.median([float(value) for value in found])) if found else None


def over_launches(values: Sequence[float]) -> Interval | None:
    """Mean and 95 % interval of one value a launch; None without any."""
    if not values:
        return None
    count, mean = len(values), float(np.mean(values))
    if count < 2:
        return Interval(mean, None, None, count)
    from scipy.special import stdtrit

    half = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2) * np.std(values, ddof=1) / np.sqrt(count))
    return Interval(mean, mean - half, mean + half, count)


Launches = Mapping[int, Sequence[Block]]
"""Blocks of one arm by launch."""


def compare(left: Launches, right: Launches) -> dict[int, float]:
    """Launch -> difference of two arms in it, for the launches that have both."""
    found = {launch: launch_difference(left[launch], right[launch]) for launch in left if launch in right}
    return {launch: value for launch, value in found.items() if value is not None}
