"""Two arms of one launch, step by step: the step in the same place of the turn in the same round.

Rounds run in opposite orders by turns (A B | B A), so what grows from turn to turn moves the rounds of one direction up
and those of the other down: a launch's value is halfway between the medians of both. A stage of the host does not grow
within a launch: there two rounds of one direction will do.

The round that a visit begins with does not count for periods, as long as rounds of both directions are left: the device
takes 12 % less for the steps of the first turn than for the same steps of all later ones, on two H200 machines, where
arms have a runner each (E4, E17: 2,110 us, then 2,400), until another arm's runner has worked. That turn is always the
same arm's. Where arms share one runner (E1 to E3) all rounds are alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from .points import OF_DEVICE, STAGES, ClaimPoint, Turn, Values

Round = tuple[Turn, Turn]
OfRound = Callable[[Values, Values], Sequence[float]]
"""Values of one arm's turn and of the other's -> what the round says: nothing, a value, or a value a step."""
LEAST_ROUNDS = 3
"""With fewer, leaving the first one out would leave one direction."""


def over_rounds(left: ClaimPoint, right: ClaimPoint, series: str, of_round: OfRound) -> float | None:
    """Halfway between the medians of both directions. None where one of them has nothing to say, but for a stage with
    two rounds of the other, and for the only round of a launch that has no more.
    """
    both = rounds(left, right)
    found = [
        of_round(one.series.get(series, ()), two.series.get(series, ())) if counts(left, series, number, len(both))
        else []
        for number, (one, two) in enumerate(both)
    ]  # fmt: skip
    ways = [[value for values in found[way::2] for value in values] for way in (0, 1)[: len(found)]]
    told = [statistics.median(values) for values in ways if values]
    enough = len(told) == len(ways) or (series in STAGES and sum(map(bool, found)) > 1)
    return statistics.fmean(told) if told and enough else None


def counts(point: ClaimPoint, series: str, round_: int, rounds_: int) -> bool:
    """Whether the series is compared in this round: not in one that opens a visit, if it holds the device's time."""
    return series not in OF_DEVICE or rounds_ < LEAST_ROUNDS or not point.opens(round_)


def step_differences(left: Values, right: Values) -> list[float]:
    """A difference for each step that both have."""
    return [mine - other for mine, other in zip(left, right, strict=False) if mine is not None and other is not None]


def turn_difference(left: Values, right: Values) -> list[float]:
    """The difference of the turns' means: for steps that lean on one another, as those of two in flight do. A long
    period is made up for by the next one there, and only the sum is the device's.
    """
    mine, other = known(left), known(right)
    return [statistics.fmean(mine) - statistics.fmean(other)] if mine and other else []


def step_ratio(left: Values, right: Values) -> list[float]:
    """The ratio of the turns' medians."""
    mine, other = known(left), known(right)
    whole = statistics.median(other) if other else 0
    return [statistics.median(mine) / whole] if mine and whole else []


def turn_ratio(left: Values, right: Values) -> list[float]:
    """The ratio of the turns' means."""
    mine, other = known(left), known(right)
    whole = statistics.fmean(other) if other else 0
    return [statistics.fmean(mine) / whole] if mine and whole else []


def turn_means(point: ClaimPoint, series: str) -> list[float]:
    """The mean of each turn that has values."""
    return [statistics.fmean(turn) for turn in _counted(point, series) if turn]


def values(point: ClaimPoint, series: str) -> list[int]:
    """All values of one arm."""
    return [value for turn in _counted(point, series) for value in turn]


def _counted(point: ClaimPoint, series: str) -> list[list[int]]:
    """The values of each turn that counts."""
    turns = _in_order(point.turns)
    return [
        known(turn.series.get(series, ())) for number, turn in enumerate(turns)
        if counts(point, series, number, len(turns))
    ]  # fmt: skip


def known(found: Values) -> list[int]:
    """Those that were measured."""
    return [value for value in found if value is not None]


def rounds(left: ClaimPoint, right: ClaimPoint) -> list[Round]:
    """The turns of both arms; an interrupted launch may lack some last ones."""
    return list(zip(_in_order(left.turns), _in_order(right.turns), strict=False))


def _in_order(turns: Sequence[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda turn: turn.order)
