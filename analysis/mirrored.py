"""Differences of two arms whose periods grow from step to step, cancelled round by round.

    round 1   first  last  skip
    round 2   skip   last  first        the mirror image: an arm that came two blocks earlier comes two blocks later

Where requests grow, steps grow with them: 0.4 us a step at 64 rows (H200), so that two blocks apart is 20 us, and the
differences of odd and even rounds lie in two clusters 40 us apart. The median over both (`blocks.step_differences`) is
then no better known than the gap between them. The mean over a round and its mirror image has no such growth in it.

The speed of a host changes too: a core of a shared machine goes at x 1.0 or x 1.8 for 0.1 to 0.5 s at a time (H200).
Only rounds much shorter than that compare arms; those that a change falls into scatter to both sides.

What grows in stairs and not evenly does not cancel: rows of one length all cross a tile of the attention kernel in the
same step (+60 us every 128 steps). Give rows different lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import Block
from .stats import Number, midmean

UNSETTLED_ROUNDS = 2
"""A launch's first steps are slower, whatever is measured: 40 us in the first 50 (H200)."""


def mirrored_differences(left: Sequence[Block], right: Sequence[Block], left_out: int = UNSETTLED_ROUNDS) -> list[int]:
    """Twice the difference (left - right) in ns for each place of a block and each round with its mirror image.

    The first `left_out` rounds, an even number, do not count. A last round without its mirror image counts neither.
    """
    rounds = list(zip(_in_order(left), _in_order(right), strict=False))[left_out:]
    return [
        mine - other + mine_back - other_back
        for (one, two), (three, four) in zip(rounds[0::2], rounds[1::2], strict=False)
        for mine, other, mine_back, other_back in zip(
            one.periods_ns, two.periods_ns, three.periods_ns, four.periods_ns, strict=False
        )
    ]


def mirrored_difference(
    left: Sequence[Block], right: Sequence[Block], left_out: int = UNSETTLED_ROUNDS
) -> Number | None:
    """Midmean of the differences in ns; None without any."""
    doubled = midmean(mirrored_differences(left, right, left_out))
    return None if doubled is None else doubled / 2


def _in_order(blocks: Sequence[Block]) -> list[Block]:
    return sorted(blocks, key=lambda block: block.order)
