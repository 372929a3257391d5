"""Two arms of one launch, step by step: the step in the same place of the turn in the same round.

Rounds run in opposite orders by turns (A B | B A), so what grows from turn to turn moves the rounds of one direction up
and those of the other down: a launch's value is halfway between the medians of both. Of three rounds or more an even
number counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from .points import ALIKE, ClaimPoint, Turn, Values

Round = tuple[Turn, Turn]
OfRound = Callable[[Values, Values], Sequence[float]]
"""Values of one arm's turn and of the other's -> what the round says: nothing, a value, or a value a step."""


def over_rounds(
    left: ClaimPoint, right: ClaimPoint, series: str, of_round: OfRound, *, alike: bool = False
) -> float | None:
    """Halfway between the medians of both directions. None where one of them has nothing to say, but for the only round
    of a launch that has no more. `alike`: of rounds whose two turns met the same host.
    """
    found = [
        [] if alike and not were_alike(one, two) else of_round(one.series.get(series, ()), two.series.get(series, ()))
        for one, two in rounds(left, right)
    ]
    ways = [[value for values in found[way::2] for value in values] for way in (0, 1)[: len(found)]]
    if not ways or not all(ways):
        return None
    return statistics.fmean(statistics.median(values) for values in ways)


def were_alike(one: Turn, two: Turn) -> bool:
    """Whether the host was equally fast in both, as far as is known."""
    return one.pace is None or two.pace is None or max(one.pace, two.pace) <= ALIKE * min(one.pace, two.pace)


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
    turns = [known(turn.series.get(series, ())) for turn in _in_order(point.turns)]
    return [statistics.fmean(turn) for turn in turns if turn]


def values(point: ClaimPoint, series: str) -> list[int]:
    """All values of one arm."""
    return [value for turn in _in_order(point.turns) for value in known(turn.series.get(series, ()))]


def known(found: Values) -> list[int]:
    """Those that were measured."""
    return [value for value in found if value is not None]


def rounds(left: ClaimPoint, right: ClaimPoint) -> list[Round]:
    """The turns of both arms, an even number of rounds."""
    found = list(zip(_in_order(left.turns), _in_order(right.turns), strict=False))
    return found if len(found) < 2 else found[: len(found) // 2 * 2]


def _in_order(turns: Sequence[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda turn: turn.order)
