"""Steps of a capture that marks none: the outermost ranges of a thread repeat in a cycle.

    reader backbone head | reader backbone head | ...   → a step from each `reader` to the `head` before the next one

A cycle counts only where it is regular: at least five turns, nine of ten with the same names in the same order. The
step begins behind the longest pause: an engine rests between steps, not inside one.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from .arrays import LongArray

_MIN_TURNS = 5
_MIN_SHARE = 0.9
_MAX_LENGTH = 64


def cycle_starts(name: LongArray, start: LongArray, end: LongArray) -> list[tuple[int, int, bool]]:
    """(first row, last row, complete) of each turn; rows are outermost ranges in order. Empty without a cycle."""
    first = _first_name(name, start, end)
    if first is None:
        return []
    heads = np.flatnonzero(name == first).tolist()
    tails = [*(head - 1 for head in heads[1:]), len(name) - 1]
    turns = [tuple(name[head : tail + 1].tolist()) for head, tail in zip(heads, tails, strict=True)]
    usual, count = Counter(turns).most_common(1)[0]
    if len(turns) < _MIN_TURNS or len(usual) > _MAX_LENGTH or count < _MIN_SHARE * len(turns):
        return []
    return [(head, tail, turn == usual) for head, tail, turn in zip(heads, tails, turns, strict=True)]


def _first_name(name: LongArray, start: LongArray, end: LongArray) -> int | None:
    """The name with the longest median pause before it, among those that occur once a turn."""
    if len(name) < 2 * _MIN_TURNS:
        return None
    pause = start[1:] - end[:-1]
    distinct, counts = np.unique(name, return_counts=True)
    usual = int(np.median(counts))
    candidates = distinct[np.abs(counts - usual) <= 1]
    if usual < _MIN_TURNS or not len(candidates) or len(candidates) > _MAX_LENGTH or len(distinct) < 2:
        return None
    pauses = [(float(np.median(pause[name[1:] == code])), -int(code)) for code in candidates.tolist()]
    return -max(pauses)[1]
