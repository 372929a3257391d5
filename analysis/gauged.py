"""Differences of two arms on a host whose speed changes, held against work that is the same in both.

A core of a shared machine goes at x 1.0 or x 1.8 for 0.1 to 0.5 s at a time (H200), so that of two steps side by side
one may be slower by hundreds of us, whatever arm it is of. What the same work takes in either, the gauge, tells. So of
every pair of steps both are known: by how much the periods differ, and by how much the gauges. The line through them is
fitted, and what the arms differ by is where the gauges don't.

On an H200 (five cells of `perf verify cells`, 270 pairs each) that took the standard error of the difference from 4 to
12 us down to 3 to 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .blocks import Block
from .stats import Number, midmean
from .tables import TableSource, processes

GAUGES = (
    "schedule", "update_states", "attention_metadata", "dispatch", "lm_head", "sample", "update_from_output",
)  # fmt: skip
"""Host ranges that no commit order touches, some 400 us of a step. Those behind the table's copy, which pay for being
the first to call the driver where it is not made, are not among them."""
CENTRAL_PERCENT = 80
"""Of the pairs, those whose gauges differ least, the line is fitted to: what lies farther out is a step held up."""
FloatArray = npt.NDArray[np.float64]
Pair = tuple[int, int]
"""Difference of the periods and of the gauges, in ns."""


@dataclass(frozen=True, slots=True)
class GaugedBlock:
    """A block whose steps have a gauge each, in ns."""

    block: Block
    gauges_ns: tuple[int, ...]


def gauged_blocks(recording: TableSource, blocks: Sequence[Block]) -> list[GaugedBlock]:
    """The blocks with the gauges of their steps, which are the recording's counted ones, in order."""
    process, *_ = processes(recording)
    spans = process.counted("spans")
    rows = spans[spans.matches("kind", "range") & spans.matches("name", *GAUGES)]
    (step, _), (begin, _), (end, _) = (rows.ints(name) for name in ("step", "start_ns", "end_ns"))
    numbers = np.sort(process.counted_numbers())
    sums = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(sums, np.searchsorted(numbers, step), end - begin)
    taken, found = sums.tolist(), []
    for block in sorted(blocks, key=lambda one: one.order):
        own, taken = taken[: len(block.periods_ns)], taken[len(block.periods_ns) :]
        found.append(GaugedBlock(block, tuple(own)))
    return found


def pairs_of(left: Sequence[GaugedBlock], right: Sequence[GaugedBlock], left_out: int) -> list[Pair]:
    """Steps in the same place of the same round, the first `left_out` rounds left out; an even number of rounds."""
    rounds = list(zip(left, right, strict=False))[left_out:]
    return [
        (mine - other, gauge - its)
        for one, two in rounds[: len(rounds) // 2 * 2]
        for mine, other, gauge, its in zip(
            one.block.periods_ns, two.block.periods_ns, one.gauges_ns, two.gauges_ns, strict=True
        )
    ]


def gauged_difference(pairs: Sequence[Pair]) -> Number | None:
    """What the periods differ by where the gauges do not, in ns: a midmean; None without pairs."""
    if not pairs:
        return None
    periods, gauges = np.array(pairs, dtype=np.float64).T
    away = np.abs(gauges - np.median(gauges))
    near = away <= np.percentile(away, CENTRAL_PERCENT)
    return midmean(np.rint(periods - _slope(gauges[near], periods[near]) * gauges))


def _slope(x: FloatArray, y: FloatArray) -> float:
    """Theil's: the median over pairs of points, which outliers do not move (tokens come 0.3 to 3 ms late in every
    tenth step). Only points farther apart than half of all pairs count: the others' slopes are noise.
    """
    one, two = np.triu_indices(len(x), 1)
    across = x[one] - x[two]
    far = np.abs(across) > np.median(np.abs(across)) if len(across) else across > 0
    return float(np.median((y[one] - y[two])[far] / across[far])) if far.any() else 0.0
