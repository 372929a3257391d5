"""Differences of two arms on a host whose speed changes, part by part, held against work that is the same in both.

    head    from the start of a step until the call that launches its forward returns: the host's
    wait    from there until its tokens are there: the device's, whatever the host does meanwhile
    tail    from there until the next step starts: the host's

A core of a shared machine goes at x 1.0 or x 1.8 for 0.1 to 0.5 s at a time (H200), so that of two steps side by side
one may be slower by hundreds of us, whatever arm it is of. What the same work takes in either, the gauges, tells. So
of every pair of steps both are known: by how much a part differs, and by how much the gauges beside it do. A slope for
each gauge is fitted, and what the arms differ by is where the gauges don't. The whole period's figure is the sum of its
parts': tokens that come late (by 0.3 to 3 ms, in every seventh step where a stream of its own copies) and calls that
were held up spoil their part alone, and a range tells of the work beside it better than of the rest.

In turns drawn from recorded steps of an H200 (`benchmarks/gauged_turns.py`) the figure's standard deviation is 2.7 to
4.5 us, where whole periods against the sum of all gauges gave 5 to 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .blocks import Block
from .columns import BoolArray, FloatArray, LongArray
from .fits import least_absolute
from .stats import Number, midmean
from .tables import Process, TableSource, processes

PARTS = ("head", "wait", "tail")
GAUGES = {
    "head": ("update_states", "dispatch", "attention_metadata", "lm_head", "sample"),
    "wait": (),
    "tail": ("update_from_output", "schedule"),
}
"""Part -> host ranges that no commit order touches, in it or next to it: some 400 us of a step in all. Of the head's,
two lie before arm first's copy, one is the last of the preparation, and two lie behind the forward's launch. Ranges
behind the copy that call the driver, and pay for being the first where it is not made, are not among them."""
RANGES = tuple(name for part in PARTS for name in GAUGES[part])
CENTRAL_PERCENT = 80
"""Of the pairs, those whose gauges differ least, the slopes are fitted to: what lies farther out is a step held up."""
PAIRS_A_SLOPE = 4
"""With fewer there is none: it would be noise."""


@dataclass(frozen=True, slots=True)
class GaugedBlock:
    """A block's steps in parts, ns.

    parts_ns    [steps, len(PARTS)]
    gauges_ns   [steps, len(RANGES)]
    known       [steps] whether both borders were recorded
    """

    block: Block
    parts_ns: LongArray
    gauges_ns: LongArray
    known: BoolArray


@dataclass(frozen=True, slots=True)
class Pairs:
    """Differences of pairs of steps, ns: of their parts [n, len(PARTS)] and of their gauges [n, len(RANGES)]."""

    parts_ns: LongArray
    gauges_ns: LongArray


def gauged_blocks(recording: TableSource, blocks: Sequence[Block]) -> list[GaugedBlock]:
    """The blocks in order, with parts and gauges of their steps, which are the recording's counted ones, in order."""
    process, *_ = processes(recording)
    blocks = sorted(blocks, key=lambda one: one.order)
    numbers = np.sort(process.counted_numbers())
    periods = np.array([ns for block in blocks for ns in block.periods_ns], dtype=np.int64)
    launched, there, known = _borders(process, numbers)
    parts = np.stack([launched, there - launched, periods - there], axis=1)
    gauges = np.stack([_range_ns(process, numbers, name) for name in RANGES], axis=1)
    cuts = np.cumsum([len(block.periods_ns) for block in blocks])[:-1]
    cut = zip(*(np.split(array, cuts) for array in (parts, gauges, known)), strict=True)
    return [GaugedBlock(block, *own) for block, own in zip(blocks, cut, strict=True)]


def pairs_of(left: Sequence[GaugedBlock], right: Sequence[GaugedBlock], left_out: int) -> Pairs:
    """Steps in the same place of the same round, the first `left_out` rounds left out; an even number of rounds."""
    rounds = list(zip(left, right, strict=False))[left_out:]
    parts, gauges = [np.zeros((0, len(PARTS)), dtype=np.int64)], [np.zeros((0, len(RANGES)), dtype=np.int64)]
    for mine, its in rounds[: len(rounds) // 2 * 2]:
        known = mine.known & its.known
        parts.append((mine.parts_ns - its.parts_ns)[known])
        gauges.append((mine.gauges_ns - its.gauges_ns)[known])
    return Pairs(np.concatenate(parts), np.concatenate(gauges))


def gauged_difference(pairs: Sequence[Pairs]) -> float | None:
    """What whole periods differ by where the gauges do not, in ns, from the pairs of all launches; None without any."""
    parts = parts_difference(pairs)
    return None if parts is None else float(sum(parts.values()))


def parts_difference(pairs: Sequence[Pairs]) -> dict[str, Number] | None:
    """The same by part: midmeans."""
    if not sum(len(one.parts_ns) for one in pairs):
        return None
    parts, gauges = (np.concatenate([getattr(one, name) for one in pairs]) for name in ("parts_ns", "gauges_ns"))
    found = {}
    for number, part in enumerate(PARTS):
        own = gauges[:, [RANGES.index(name) for name in GAUGES[part]]].astype(np.float64)
        values = parts[:, number]
        middle = midmean(np.rint(values - own @ _slopes(own, values.astype(np.float64))))
        assert middle is not None
        found[part] = middle
    return found


def _borders(process: Process, numbers: LongArray) -> tuple[LongArray, LongArray, BoolArray]:
    """Of each step, ns behind its start: where the call that launches its forward returned, and where its tokens were
    there; and whether both are known.
    """
    spans, waits, steps = process.counted("spans"), process.counted("waits"), process.counted("steps")
    ids, numbered = spans.ints("correlation")
    graphs = ids[spans.matches("kind", "graph") & numbered]
    launches = spans[spans.matches("kind", "launch") & numbered & np.isin(ids, graphs)]
    (launched, known), (there, waited) = (
        _last_end(numbers, *(rows.ints(name)[0] for name in ("step", "end_ns")))
        for rows in (launches, waits[waits.matches("reason", "tokens")])
    )
    step, start = (steps.ints(name)[0] for name in ("step", "start_ns"))
    start = start[np.argsort(step)]
    return launched - start, there - start, known & waited


def _last_end(numbers: LongArray, step: LongArray, end: LongArray) -> tuple[LongArray, BoolArray]:
    found: LongArray = np.full(len(numbers), -1, dtype=np.int64)
    np.maximum.at(found, np.searchsorted(numbers, step), end)
    return found, found >= 0


def _range_ns(process: Process, numbers: LongArray, name: str) -> LongArray:
    """What the ranges of that name take in each step, 0 in one without."""
    spans = process.counted("spans")
    rows = spans[spans.matches("kind", "range") & spans.matches("name", name)]
    step, begin, end = (rows.ints(column)[0] for column in ("step", "start_ns", "end_ns"))
    sums: LongArray = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(sums, np.searchsorted(numbers, step), end - begin)
    return sums


def _slopes(gauges: FloatArray, values: FloatArray) -> FloatArray:
    """Of `values` [n] over each of `gauges` [n, k], by the central pairs alone."""
    off = np.abs(gauges - np.median(gauges, axis=0))
    away = (off / np.maximum(np.median(off, axis=0), 1)).max(axis=1, initial=0)
    near = away <= np.percentile(away, CENTRAL_PERCENT)
    terms = np.column_stack([gauges[near], np.ones(int(near.sum()))])
    if len(terms) < PAIRS_A_SLOPE * terms.shape[1]:
        return np.zeros(gauges.shape[1])
    return least_absolute(terms, values[near])[:-1]
