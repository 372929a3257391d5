"""Two arms of one launch, step by step: the step in the same place of the turn in the same round.

Rounds run in opposite orders by turns, so of three rounds or more an even number counts: what grows from turn to turn
then falls on both arms alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypeVar

from .points import ClaimPoint, Turn

Pair = tuple[int, int]
T = TypeVar("T")


def pairs(left: ClaimPoint, right: ClaimPoint, series: str) -> list[Pair]:
    """(value of `left`, value of `right`) where both were measured."""
    return [
        (mine, other)
        for one, two in rounds(left, right)
        for mine, other in zip(one.series.get(series, ()), two.series.get(series, ()), strict=False)
        if mine is not None and other is not None
    ]


def turn_pairs(left: ClaimPoint, right: ClaimPoint, series: str) -> list[tuple[float, float]]:
    """(mean of the turn of `left`, mean of the turn of `right`) of each round, an even number of them."""
    return balanced(list(zip(turn_means(left, series), turn_means(right, series), strict=False)))


def turn_means(point: ClaimPoint, series: str) -> list[float]:
    """The mean of each turn: for steps that lean on one another, as those of two in flight do. A long period is made up
    for by the next one there, and only the sum is the device's.
    """
    turns = [[v for v in turn.series.get(series, ()) if v is not None] for turn in _in_order(point.turns)]
    return [statistics.fmean(turn) for turn in turns if turn]


def values(point: ClaimPoint, series: str) -> list[int]:
    """All values of one arm."""
    return [value for turn in _in_order(point.turns) for value in turn.series.get(series, ()) if value is not None]


def rounds(left: ClaimPoint, right: ClaimPoint) -> list[tuple[Turn, Turn]]:
    """The turns of both arms, an even number of rounds."""
    return balanced(list(zip(_in_order(left.turns), _in_order(right.turns), strict=False)))


def balanced(found: list[T]) -> list[T]:
    """All of them but for an odd last one."""
    return found if len(found) < 2 else found[: len(found) // 2 * 2]


def _in_order(turns: Sequence[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda turn: turn.order)
