"""Arms that took turns, block by block, in several launches: differences within a launch, intervals over launches.

    launch 1   first  last  skip | skip  last  first | first ...      a block is one of these, a round is one of each
    launch     the median difference of steps in the same place of two arms' blocks of one round; rounds run in opposite
               orders by turns, so what drifts or grows falls on both alike
    figure     the mean over launches, and Student's interval: launches are what was repeated, steps are not
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def step_differences(left: Sequence[Block], right: Sequence[Block]) -> list[int]:
    """Period of each step of `left` less that of the step in the same place of the same round of `right`, in ns.

    Of three rounds or more an even number counts: an arm that comes later in one round comes earlier in the next, so
    what grows from block to block moves half of the differences up and half of them down, and leaves their median.
    (The mean over two rounds would cancel it in each difference, and has a third more noise on an H200: disturbed steps
    then spoil two values each.)
    """
    pairs = list(zip(_in_order(left), _in_order(right), strict=False))  # interrupted launches lack some last blocks
    balanced = pairs if len(pairs) < 2 else pairs[: len(pairs) // 2 * 2]
    return [
        mine - other for one, two in balanced for mine, other in zip(one.periods_ns, two.periods_ns, strict=False)
    ]


def _in_order(blocks: Sequence[Block]) -> list[Block]:
    return sorted(blocks, key=lambda block: block.order)


def launch_difference(left: Sequence[Block], right: Sequence[Block]) -> Number | None:
    """What one launch says of two arms, in ns: the median over its pairs of steps; None without one."""
    return median(step_differences(left, right))


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
