"""From proposed places to steps that are sure: the weakest one goes, until all that are left hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .limits import StepLimits
from .proposals import Propose
from .split import Floats, Split, best_split, difference_p


def find_steps(values: Floats, propose: Propose, limits: StepLimits) -> tuple[Split, ...]:
    """The steps of `values` [n] (log), ascending; each is judged on the two pieces that meet in it."""
    places, spread = list(propose(values, limits.min_segment)), 1.0
    while found := _holding(values, places, limits, spread):
        if (needed := spread_of(values, places)) <= spread:
            return _settled(values, found, limits, spread)
        spread = needed
    return ()


def _holding(values: Floats, places: list[int], limits: StepLimits, spread: float) -> list[Split]:
    """The splits that hold, `places` being cut down to theirs. One that goes changes those beside it, and no other."""
    found = _splits(values, places, limits, spread)
    weak = [_weakness(split, limits) for split in found]
    while found:
        weakest = max(range(len(found)), key=weak.__getitem__)
        if not weak[weakest][0]:
            break
        del places[weakest], found[weakest], weak[weakest]
        edges = [0, *places, len(values)]
        for at in range(max(weakest - 1, 0), min(weakest + 1, len(found))):
            found[at] = _split(values, edges, at, limits, spread)
            weak[at] = _weakness(found[at], limits)
    return found


def spread_of(values: Floats, places: Sequence[int]) -> float:
    """By how much the variance of a mean exceeds that of independent results: (1 + r) / (1 - r), first-order process.

    r is the likeness of neighbours around their piece's mean; taken for 0 where chance alone explains it (95 %).
    """
    r = likeness(values, places)
    return (1 + r) / (1 - r) if r > 1.645 / np.sqrt(len(values)) else 1.0


def likeness(values: Floats, places: Sequence[int]) -> float:
    """Correlation of neighbours within pieces, at most 0.9; 0 where nothing varies. Short pieces bias it downwards."""
    pieces = [piece - piece.mean() for piece in np.split(values, list(places))]
    square = sum(float((piece**2).sum()) for piece in pieces)
    product = sum(float((piece[1:] * piece[:-1]).sum()) for piece in pieces)
    return min(0.9, product / square) if square > 0 else 0.0


def _splits(values: Floats, places: list[int], limits: StepLimits, spread: float) -> list[Split]:
    edges = [0, *places, len(values)]
    return [_split(values, edges, at, limits, spread) for at in range(len(places))]


def _split(values: Floats, edges: Sequence[int], at: int, limits: StepLimits, spread: float) -> Split:
    return best_split(values, edges[at], edges[at + 2], limits.min_segment, spread)


def _weakness(split: Split, limits: StepLimits) -> tuple[bool, float, float]:
    """Whether it has to go, and how soon: what is not sure before what is small."""
    unsure = split.p >= limits.alpha
    small = abs(split.effect) < np.log1p(limits.min_effect)
    return bool(unsure or small), split.p if unsure else 0.0, -abs(split.effect)


def _settled(values: Floats, found: list[Split], limits: StepLimits, spread: float) -> tuple[Split, ...]:
    """The places as the test moved them, judged once more where a move changed the neighbours' pieces."""
    moved = [split.place for split in found]
    edges = [0, *moved, len(values)]
    if any(after - before < limits.min_segment for before, after in pairwise(edges)):
        return tuple(found)
    again = _splits(values, moved, limits, spread)
    return tuple(again) if not any(_weakness(split, limits)[0] for split in again) else tuple(found)


def newest(values: Floats, limits: StepLimits) -> tuple[int, float] | None:
    """(how many, effect in log) of the last results of a piece that differ surely but are too few for a step."""
    for count in range(limits.min_segment - 1, 0, -1):
        before, last = values[:-count], values[-count:]
        if len(before) < limits.min_results - 1:
            continue
        effect = float(np.median(last) - np.median(before))
        if difference_p(before, last) < limits.alpha and abs(effect) >= np.log1p(limits.min_effect):
            return count, effect
    return None
