"""Copies of the matched steps, by direction and kinds of memory.

A ledger holds the copies that a runner asked for; a profiler also sees those inside graphs and those that the
framework makes on the device. A copy between host and device that only one of the two saw is a real difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import BoolArray, Columns, LongArray
from .compare_phases import Verdict
from .compare_steps import StepPairs
from .stats import total
from .tables import Process

_HOST_DIRECTIONS = ("h2d", "d2h")
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class CopyPairs:
    """One direction between two kinds of memory. Sums are null where a copy lacks its size or its times.

    timed, within   copies with times on both sides whose order tells which is which, and how many of these last equally
                    long within err
    """

    direction: str
    src_kind: str
    dst_kind: str
    a_copies: int
    b_copies: int
    a_bytes: int | None
    b_bytes: int | None
    a_ns: int | None
    b_ns: int | None
    timed: int
    within: int
    steps_that_differ: int
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Copies of one side: the pair of steps that each belongs to, and its values."""

    rows: Columns
    pair: LongArray

    def of(self, key: _Key) -> _Side:
        direction, src, dst = key
        rows = self.rows
        chosen: BoolArray = (
            rows.matches("direction", direction) & rows.matches("src_kind", src) & rows.matches("dst_kind", dst)
        )
        return _Side(rows[chosen], self.pair[chosen])

    def kinds(self) -> list[_Key]:
        """Kinds in order of first appearance."""
        columns = [self.rows.texts(name) for name in ("direction", "src_kind", "dst_kind")]
        return [
            (direction or "unknown", src or "unknown", dst or "unknown")
            for direction, src, dst in dict.fromkeys(zip(*columns, strict=True))
        ]

    def sizes(self) -> tuple[LongArray, BoolArray]:
        return self.rows.ints("size_bytes")

    def durations(self) -> tuple[LongArray, BoolArray]:
        (start, started), (end, ended) = self.rows.ints("start_ns"), self.rows.ints("end_ns")
        return end - start, started & ended


def copy_pairs(pairs: StepPairs, a: Process, b: Process, *, why_not: str | None) -> list[CopyPairs]:
    """A row a kind that one of the two has, not judged where there is a reason (`why_not`) against it. Copies outside
    the matched steps are left out."""
    first, second = _side(a, pairs.a), _side(b, pairs.b)
    kinds = sorted({*first.kinds(), *second.kinds()})
    return [_row(kind, first.of(kind), second.of(kind), why_not) for kind in kinds]


def _side(process: Process, rows: LongArray) -> _Side:
    numbers = process.rows("steps").ints("step")[0][rows]
    copies = process.rows("copies")
    step, numbered = copies.ints("step")
    order = np.argsort(numbers)
    place = np.minimum(np.searchsorted(numbers[order], step), max(0, len(numbers) - 1))
    chosen = numbered & (numbers[order][place] == step) & ~copies.ints("graph_node")[1]
    return _Side(copies[chosen], order[place[chosen]])


def _row(key: _Key, a: _Side, b: _Side, why_not: str | None) -> CopyPairs:
    sizes = [_sum(*side.sizes()) for side in (a, b)]
    lengths = [_sum(*side.durations()) for side in (a, b)]
    timed, within = _equally_long(a, b)
    differing = _steps_that_differ(a, b)
    verdict, reason = _verdict(key, a, b, differing) if why_not is None else ("not judged", why_not)
    return CopyPairs(
        *key, len(a.pair), len(b.pair), sizes[0], sizes[1], lengths[0], lengths[1], timed, within, differing,
        verdict, reason,
    )


def _verdict(key: _Key, a: _Side, b: _Side, differing: int) -> tuple[Verdict, str]:
    if key[0] not in _HOST_DIRECTIONS and not (len(a.pair) and len(b.pair)):
        return "not judged", "the framework's own copies on the device stand in no ledger"
    if differing:
        return "differs", f"count or bytes differ in {differing} steps"
    return "agrees", ""


def _sum(values: LongArray, valid: BoolArray) -> int | None:
    return total(values) if valid.all() and len(values) else None


def _steps_that_differ(a: _Side, b: _Side) -> int:
    """Pairs of steps in which the two sides have another number of copies, or another number of bytes."""
    width = int(max([-1, *a.pair.tolist(), *b.pair.tolist()])) + 1
    unequal = np.zeros(width, dtype=np.bool_)
    counts = [np.bincount(side.pair, minlength=width) for side in (a, b)]
    unequal |= counts[0] != counts[1]
    if all(side.sizes()[1].all() for side in (a, b)):
        sums = []
        for side in (a, b):
            found = np.zeros(width, dtype=np.int64)
            np.add.at(found, side.pair, side.sizes()[0])
            sums.append(found)
        unequal |= sums[0] != sums[1]
    return int(unequal.sum())


def _equally_long(a: _Side, b: _Side) -> tuple[int, int]:
    """Of the steps with equal numbers of copies, all timed: copies in order of start, compared one by one."""
    (first, first_known), (second, second_known) = a.durations(), b.durations()
    if len(first) != len(second) or not len(first) or not (first_known.all() and second_known.all()):
        return 0, 0
    orders = [np.lexsort((side.rows.ints("start_ns")[0], side.pair)) for side in (a, b)]
    if (a.pair[orders[0]] != b.pair[orders[1]]).any():
        return 0, 0
    err = a.rows.ints("err_ns")[0][orders[0]] + b.rows.ints("err_ns")[0][orders[1]]
    close = np.abs(first[orders[0]] - second[orders[1]]) <= 2 * err
    return len(first), int(close.sum())
