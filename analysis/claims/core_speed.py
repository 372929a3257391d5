"""At which of its two speeds the core worked in a turn.

A core of the measured machines runs at full speed or about 1.8 times as slow, for tenths of a second; a turn takes 5
to 30 ms and falls into one of both, as a rule. How much a slowed core costs depends on the work (1.2 to 1.9 times), so
what is measured at one speed is no figure of the other, and an average of both is one of neither: figures of the host
are made at each speed by itself.

The gauge beside a turn tells the slower of the speeds before and behind it, and may miss what came between. It finds
the two levels of an arm's steps:

    full     the median of its steps in turns gauged fast
    slowed   the median of its steps in turns gauged slow; both of those steps only that are nearer to it (in ratio)

and then a turn is of the speed that three in four of its steps are nearer to; one that a change fell into is of none.
Turns that come first in their round and those that come last have levels of their own: behind another arm the caches
are that one's (the state update of 64 rows of 8k tokens takes 30 us first, and 76 us behind an arm that rebuilds it).
Where the levels are not apart, where an arm has hardly any turns of one kind, or where turns gauged fast come out slow
(its steps differ for reasons of their own), the gauge alone tells.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from .points import PERIOD, STAGES, ClaimPoint, Turn

Speed = Literal["full", "slowed"]
SPEEDS: tuple[Speed, ...] = get_args(Speed)
FAST, SLOW = 1.15, 1.5
"""Gauges up to FAST times the best of the run are fast, from SLOW times on slow; between them a change fell."""
APART = 1.2
"""Levels that are nearer than that tell nothing."""
FEW = 0.1
"""Steps of turns gauged slow that are APART from the fast level are a level of their own when they are a tenth of all:
such turns may have been fast for the most part."""
MOST, LEAST = 0.75, 3
"""Share of a turn's steps that make it one of a speed; turns of each kind that a level needs."""


def at_speed(points: Sequence[ClaimPoint], speed: Speed) -> list[ClaimPoint]:
    """The points of one claim without the values of turns of the other speed, or of none; turns keep their places."""
    arms: dict[tuple[str, str], list[ClaimPoint]] = {}
    for point in points:
        arms.setdefault((repr(sorted(point.cell.items())), point.arm), []).append(point)
    return [point for launches in arms.values() for point in _of_arm(launches, speed)]


def _of_arm(launches: Sequence[ClaimPoint], speed: Speed) -> list[ClaimPoint]:
    """Of all launches of one arm; rounds run in opposite orders by turns, so every second turn is of one direction."""
    ordered = [sorted(point.turns, key=lambda turn: turn.order) for point in launches]
    limits = [
        border([replace(point, turns=tuple(turns[way::2])) for point, turns in zip(launches, ordered, strict=True)])
        for way in (0, 1)
    ]
    return [
        replace(point, turns=tuple(
            turn if speed_of(turn, limits[number % 2]) == speed else replace(turn, series={})
            for number, turn in enumerate(turns)
        ))
        for point, turns in zip(launches, ordered, strict=True)
    ]  # fmt: skip


def border(launches: Sequence[ClaimPoint]) -> float | None:
    """Between the levels of one arm's steps, in ns; None where the gauge alone has to tell."""
    turns = [turn for point in launches for turn in point.turns if turn.pace is not None and told_by(turn)]
    gauged = {speed: [turn for turn in turns if speed_of(turn, None) == speed] for speed in SPEEDS}
    if min(map(len, gauged.values())) < LEAST:
        return None
    limit = _between(*([value for turn in gauged[speed] for value in told_by(turn)] for speed in SPEEDS))
    if limit is None:
        return None
    misfits = sum(speed_of(turn, limit) == "slowed" for turn in gauged["full"])
    return None if misfits > max(1.0, (1 - MOST) * len(gauged["full"])) else limit


def _between(fast: Sequence[int], slow: Sequence[int]) -> float | None:
    """The geometric mean of both levels; None where they are not apart."""
    full, slowed = statistics.median(fast), statistics.median(slow)
    if slowed < APART * full:
        late = [value for value in slow if value > APART * full]
        if len(late) < FEW * len(slow) or not late:
            return None
        slowed = statistics.median(late)
    for _ in range(3):
        limit = math.sqrt(full * slowed)
        below, above = [one for one in fast if one <= limit], [one for one in slow if one > limit]
        if not below or not above:
            return None
        full, slowed = statistics.median(below), statistics.median(above)
    return math.sqrt(full * slowed) if slowed >= APART * full else None


def speed_of(turn: Turn, limit: float | None) -> Speed | None:
    """The turn's speed, given the border of its arm; None for neither. Without a gauge it counts as full."""
    if turn.pace is None:
        return "full"
    values = told_by(turn)
    if limit is None or not values:
        return "full" if turn.pace <= FAST else "slowed" if turn.pace >= SLOW else None
    late = sum(value > limit for value in values) / len(values)
    return "full" if late <= 1 - MOST else "slowed" if late >= MOST else None


def told_by(turn: Turn) -> list[int]:
    """The steps that tell the core's speed: of a stage if one was measured, a period holds the device's time too."""
    name = next((stage for stage in STAGES if stage in turn.series), PERIOD)
    return [value for value in turn.series.get(name, ()) if value is not None]
