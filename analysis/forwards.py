"""Forwards of arms that take turns on one runner, set apart from what an arm costs outside of them.

A forward grows with its rows and does not grow evenly: over 64 rows of 2,048 tokens (H200) it lay up to 16 us above and
12 below a straight line, in waves of 128 steps, a tile of keys. Rounds that mirror each other cancel a straight line
(`mirrored`); of the waves they left 5 to 37 us in single pairs of rounds and 8 to 18 in a launch's figure, more than a
copy of 2 MiB may be off. The wave is the requests': the same steps on another runner, with other memory, showed it
again to 3 us, around a level of that runner's own. So it is measured, step by step, and taken away:

    worth of an arm = pace net of the forwards (`net_blocks`) + what it does to the forwards themselves (`jump_of`)

Net of its own forwards an arm would be forgiven whatever it does to them, as a copy that shares the memory's bandwidth
with the forward does. That part is asked for at the borders between turns: there the wave goes on, and the arm changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .blocks import CONFIDENCE, Block
from .columns import FloatArray, LongArray
from .fits import least_absolute
from .stats import median, midmean
from .tables import TableSource, processes

REACH, SETTLED = 14, 2
"""Steps on either side of a border that are compared, and those behind it that are still the other arm's in part."""
Forwards = Mapping[int, int]
"""Step -> what its forward took on the device, in ns."""


class Jump(NamedTuple):
    """By how much forwards of one arm are longer than those of another, in ns, and half of its 95 % interval by how
    borders differ: None with a single border of a direction.
    """

    ns: float
    half_ns: float | None

    def less(self, other: Jump) -> Jump:
        """The difference of two."""
        known = self.half_ns is not None and other.half_ns is not None
        return Jump(self.ns - other.ns, math.hypot(self.half_ns or 0, other.half_ns or 0) if known else None)


def forwards_of(recording: TableSource) -> dict[int, int]:
    """The replayed forward of each step by device times, those of steps that are not counted included. Empty where
    none were recorded.
    """
    found: dict[int, int] = {}
    for number, begin, end in _replays(recording):
        found[number] = found.get(number, 0) + end - begin
    return found


def forward_starts(recording: TableSource) -> dict[int, int]:
    """When the device began each step's replayed forward, in ns; of the same steps as `forwards_of`."""
    found: dict[int, int] = {}
    for number, begin, _ in _replays(recording):
        found[number] = min(begin, found.get(number, begin))
    return found


def _replays(recording: TableSource) -> Iterator[tuple[int, int, int]]:
    """Step, begin and end of each replay whose device times are known."""
    process, *_ = processes(recording)
    spans = process.rows("spans")
    graphs = spans[spans.matches("kind", "graph")]
    (step, numbered), (begin, begun), (end, ended) = (graphs.ints(name) for name in ("step", "start_ns", "end_ns"))
    chosen = numbered & begun & ended
    yield from zip(step[chosen].tolist(), begin[chosen].tolist(), end[chosen].tolist(), strict=True)


def steps_of(recording: TableSource, blocks: Sequence[Block]) -> list[LongArray]:
    """The steps of each block in order: the recording's counted ones, in order."""
    process, *_ = processes(recording)
    numbers = np.sort(process.counted_numbers())
    ends = np.cumsum([len(block.periods_ns) for block in _in_order(blocks)])
    return np.split(numbers, ends[:-1]) if len(ends) else []


def net_blocks(blocks: Sequence[Block], steps: Sequence[LongArray], forwards: Forwards) -> list[Block]:
    """The blocks in order, each period less the forward of its step, or less the median of its block's where that one
    is not known. A block none of whose forwards is known has no periods: no figure.

    A period holds the forwards of other steps, too; windows hold all of theirs but the first and the last (`pace`).
    """
    found = []
    for block, numbers in zip(_in_order(blocks), steps, strict=True):
        took = [forwards.get(step) for step in numbers.tolist()]
        level = median([ns for ns in took if ns is not None])
        own = () if level is None else [round(level) if ns is None else ns for ns in took]
        periods = tuple(period - ns for period, ns in zip(block.periods_ns, own, strict=bool(own)))
        found.append(Block(block.order, periods))
    return found


def settled(
    forwards: Mapping[str, Forwards], steps: Mapping[str, Sequence[LongArray]], left_out: int
) -> dict[str, dict[int, int]]:
    """Each arm's without those of the first `left_out` rounds: a launch's first forwards fall by 250 us within a few
    steps and climb by 80 in the next twenty (H200), which no two lines follow. `steps` are the blocks', in order.
    """
    begins = [own[left_out][0] for own in steps.values() if len(own) > left_out and len(own[left_out])]
    begin = min(begins, default=None)
    return {
        arm: {step: ns for step, ns in forwards.get(arm, {}).items() if begin is not None and step >= begin}
        for arm in steps
    }


def jump_of(left: Forwards, right: Forwards) -> Jump | None:
    """`left` against `right` by the borders where their turns meet: the midmean over borders of the jump between two
    lines of one slope. None without a border of either direction.

    What bends forwards alike on both sides leaves no jump, and what is left of other bends has the other sign where the
    arms meet in the other order: the figure is the mean of both orders'. With forwards that scatter by 4 us and 16
    rounds it is right to 1.6 us (standard deviation).
    """
    orders = []
    for sign, one, two in ((1, right, left), (-1, left, right)):
        jumps = [round(sign * _jump(before, behind, one, two)) for before, behind in _borders(one, two)]
        middle = midmean(jumps)
        if middle is None:
            return None
        orders.append(Jump(middle, _half_ns(jumps)))
    return mean_jump(orders)


def _half_ns(jumps: Sequence[int]) -> float | None:
    """Half of the 95 % interval of a midmean, by the winsorised scatter (Tukey and McLaughlin 1963); None of one. A
    border that fell on a step that was held up moves the midmean hardly, and shall not widen its interval either.
    """
    count, left_out = len(jumps), len(jumps) // 4
    if count < 2:
        return None
    from scipy.special import stdtrit

    ordered = np.sort(np.array(jumps, dtype=np.float64))
    scatter = float(np.std(np.clip(ordered, ordered[left_out], ordered[-1 - left_out]), ddof=1))
    kept = count - 2 * left_out
    return float(stdtrit(kept - 1, 0.5 + CONFIDENCE / 2)) * scatter * math.sqrt(count) / kept


def mean_jump(jumps: Sequence[Jump]) -> Jump | None:
    """The mean of independent ones; None without any."""
    if not jumps:
        return None
    halves = [one.half_ns for one in jumps if one.half_ns is not None]
    half = math.hypot(*halves) / len(jumps) if len(halves) == len(jumps) else None
    return Jump(sum(one.ns for one in jumps) / len(jumps), half)


def _borders(one: Forwards, two: Forwards) -> list[tuple[list[int], list[int]]]:
    """Where steps of `one` are followed by steps of `two`: the last steps before and the first settled ones behind.

    The last step of a turn has no counted period, and may have no forward either.
    """
    found = []
    mine, its = _runs(set(one) - set(two)), _runs(set(two) - set(one))
    for run in mine:
        behind = next((other for other in its if 0 < other[0] - run[-1] <= SETTLED), None)
        if behind is not None and min(len(run), len(behind) - SETTLED) > SETTLED:
            found.append((run[-REACH:], behind[SETTLED : SETTLED + REACH]))
    return found


def _runs(steps: set[int]) -> list[list[int]]:
    """Steps that follow one another, one of them left out at most."""
    numbers = sorted(steps)
    cuts: LongArray = np.flatnonzero(np.diff(np.array(numbers, dtype=np.int64)) > SETTLED) + 1
    return [part.tolist() for part in np.split(np.array(numbers, dtype=np.int64), cuts) if len(part)]


def _jump(before: Sequence[int], behind: Sequence[int], one: Forwards, two: Forwards) -> float:
    """Two lines of one slope, by least absolute differences."""
    steps = np.array([*before, *behind], dtype=np.float64) - behind[0]
    took = np.array([*(one[step] for step in before), *(two[step] for step in behind)], dtype=np.float64)
    terms: FloatArray = np.stack([np.ones(len(steps)), steps, (steps >= 0).astype(np.float64)], axis=1)
    return float(least_absolute(terms, took)[2])


def _in_order(blocks: Sequence[Block]) -> list[Block]:
    return sorted(blocks, key=lambda block: block.order)
