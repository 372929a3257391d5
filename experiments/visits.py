"""Launches that live side by side measure a few rounds at a time and let the others measure in between.

What happens on a machine for a second (a neighbour on the sibling thread, a bus that others use) then falls on a few
rounds of several launches, and on none of them as a whole.
"""

from __future__ import annotations

from .spec import MeasureSpec

ROUNDS = 4
"""Rounds of a visit: even, so that each has as many of one direction as of the other."""
SETTLE = 3
"""Steps more in front of a block of a visit's first round: memory and caches are those of another process."""


def in_visits(measure: MeasureSpec) -> bool:
    """Whether rounds may be told apart in time: a workload all of whose steps count (settle_steps 0) goes through."""
    return measure.resident and measure.settle_steps > 0


def begins(measure: MeasureSpec, round_: int) -> bool:
    """Whether a visit begins with this round."""
    return in_visits(measure) and round_ % ROUNDS == 0


def settle_steps(measure: MeasureSpec, round_: int) -> int:
    """Steps in front of a block of this round that are not counted."""
    return measure.settle_steps + (SETTLE if begins(measure, round_) else 0)


def arm_steps(measure: MeasureSpec) -> int:
    """Steps of all blocks of an arm."""
    return sum(settle_steps(measure, round_) + measure.block_steps + 1 for round_ in range(measure.blocks))


def whole_visits(measure: MeasureSpec) -> int:
    """Blocks of as many whole visits as all rounds take."""
    return -(-measure.blocks // ROUNDS) * ROUNDS if in_visits(measure) else measure.blocks
