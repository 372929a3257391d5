"""Differences of two arms whose periods grow from step to step, cancelled between rounds of either direction.

    round 1   first  last  skip
    round 2   skip   last  first        the mirror image: an arm that came two blocks earlier comes two blocks later

Where requests grow, steps grow with them: 0.4 us a step at 64 rows (H200), so that two blocks apart is 20 us, and the
differences of odd and even rounds lie in two clusters 40 us apart. The median over both (`blocks.step_differences`) is
then no better known than the gap between them. Each cluster has its own median, and growth is as far above the truth
in one as it is below it in the other: the mean of both medians has none in it. A block that something held up moves one
of the differences, and a median does not see it; the mean over a round and its mirror image would see it twice.

With two steps in flight single periods lean on each other; a block is compared by its pace (`pace`).

A block in which the device did not bind, for the host was too slow, has another pace. Whether it did is told by the
host's waits for tokens, which a step that is late finds already there (`kept_waiting`); and as the host is as slow in
one arm as in another, such a round does not count for any.

What grows in stairs and not evenly does not cancel: rows of one length all cross a tile of the attention kernel in the
same step (+60 us every 128 steps). Give rows different lengths.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from .blocks import Block
from .pace import WINDOW, pace_ns
from .stats import median_of_floats
from .tables import TableSource, processes

UNSETTLED_ROUNDS = 2
"""A launch's first steps are slower, whatever is measured: 40 us in the first 50 (H200)."""
LATE_WAIT_NS = 100_000
"""A wait for tokens that are there already takes 10 to 20 us (H200); one for a device that binds takes the rest of its
step, which is made to be hundreds of us at least."""
LATE_SHARE = 0.25
"""A step that was held up alone spoils the windows that it lies in, and a median of windows stands that. A host that is
too slow is late step after step."""


class RoundDifference(NamedTuple):
    """By how much two arms' paces differ in one round, in ns; `back` in rounds that run in the opposite direction."""

    back: bool
    difference_ns: float


def round_differences(
    left: Sequence[Block], right: Sequence[Block], left_out: int = UNSETTLED_ROUNDS, unfit: Collection[int] = (),
    window: int = WINDOW,
) -> list[RoundDifference]:  # fmt: skip
    """left - right of each round but the first `left_out` ones and those numbered in `unfit`."""
    found = []
    for number, (one, other) in enumerate(zip(_in_order(left), _in_order(right), strict=False)):
        mine, its = pace_ns(one.periods_ns, window), pace_ns(other.periods_ns, window)
        if number >= left_out and number not in unfit and mine is not None and its is not None:
            found.append(RoundDifference(number % 2 == 1, float(mine - its)))
    return found  # interrupted launches lack some last blocks


def mirrored_difference(differences: Sequence[RoundDifference]) -> float | None:
    """The mean of the medians of rounds of either direction, in ns; None where one direction has no round."""
    there, back = (
        median_of_floats([one.difference_ns for one in differences if one.back == way]) for way in (False, True)
    )
    return None if there is None or back is None else (there + back) / 2


def kept_waiting(recording: TableSource, blocks: Sequence[Block]) -> list[bool]:
    """Of each block in order, whether the host waited for the device in all but `LATE_SHARE` of its steps, which are
    the recording's counted ones in order. Steps whose wait is not recorded say nothing; a block of such steps is fit.
    """
    process, *_ = processes(recording)
    steps = process.counted("steps")
    number, _ = steps.ints("step")
    waited, known = steps.ints("host_wait_ns")
    order = np.argsort(number)
    waited, known = waited[order], known[order]
    found, begin = [], 0
    for block in _in_order(blocks):
        end = begin + len(block.periods_ns)
        late = waited[begin:end][known[begin:end]] < LATE_WAIT_NS
        found.append(int(late.sum()) <= LATE_SHARE * len(late))
        begin = end
    return found


def _in_order(blocks: Sequence[Block]) -> list[Block]:
    return sorted(blocks, key=lambda block: block.order)
