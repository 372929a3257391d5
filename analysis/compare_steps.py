"""Which step of one recording is which of the other.

Two recordings of ours are matched by step number; warm-up and incomplete steps are left out, as from all figures of a
recording. A capture of a run counts its steps from where it began: there the
sequence of step lengths, which both sides saw, tells the shift between the two.

    recording   0:900  1:400  2:410  3:700  4:405
    capture            0:401  1:412  2:702            shift 1, unmatched 0 and 4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..errors import Incomparable
from .columns import Columns, LongArray
from .stats import median
from .tables import counted_steps

Matching = Literal["number", "length"]
LENGTH_TOLERANCE_NS = 10_000
LENGTH_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class StepPairs:
    """`a` and `b` are row numbers of the two tables `steps`, pair by pair; `unmatched_*` are step numbers; `left_out`
    steps are warm-up or incomplete on either side."""

    by: Matching
    a: LongArray
    b: LongArray
    unmatched_a: tuple[int, ...]
    unmatched_b: tuple[int, ...]
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.a)


def match_by_number(a: Columns, b: Columns) -> StepPairs:
    """Counted steps of the same number. Raises Incomparable where no number is on both sides."""
    ours, theirs = a.ints("step")[0], b.ints("step")[0]
    uncounted = np.union1d(ours[~counted_steps(a)], theirs[~counted_steps(b)])
    _, first, second = np.intersect1d(ours, theirs, return_indices=True)
    if not len(first):
        raise Incomparable(f"no step is on both sides: {_range(ours)} and {_range(theirs)}")
    counted = ~np.isin(ours[first], uncounted)
    if not counted.any():
        raise Incomparable("no step that both sides have counts: all are warm-up or incomplete")
    first, second = first[counted].astype(np.int64), second[counted].astype(np.int64)
    found = _pairs("number", (a, b), first, second)
    return replace(
        found, left_out=len(uncounted), unmatched_a=_without(found.unmatched_a, uncounted),
        unmatched_b=_without(found.unmatched_b, uncounted),
    )  # fmt: skip


def _without(numbers: tuple[int, ...], uncounted: LongArray) -> tuple[int, ...]:
    return tuple(number for number in numbers if number not in uncounted)


def match_by_length(a: Columns, b: Columns) -> StepPairs:
    """Steps in order, shifted so that their lengths fit best; at least half of the shorter side is matched.

    Raises Incomparable where no shift fits: then the two saw different runs.
    """
    lengths = [_lengths(rows) for rows in (a, b)]
    shift, worst = min(_shifts(*lengths), key=lambda found: (found[1], -_overlap(found[0], *lengths)))
    typical = median(np.concatenate(lengths)) or 0
    if worst > LENGTH_TOLERANCE_NS + LENGTH_TOLERANCE * typical:
        raise Incomparable(
            f"the two did not see the same run: the lengths of its steps differ by {worst:.0f} ns (median) at best; "
            "compare a recording with the capture of its own run (perf capture makes both)"
        )
    first = np.arange(max(0, shift), min(len(lengths[0]), shift + len(lengths[1])), dtype=np.int64)
    return _pairs("length", (a, b), first, first - shift)


def _lengths(rows: Columns) -> LongArray:
    (start, started), (end, ended) = rows.ints("start_ns"), rows.ints("end_ns")
    if not (started & ended).all():
        raise Incomparable("a step lacks its start or its end; record again without interrupting")
    return end - start


def _shifts(a: LongArray, b: LongArray) -> Sequence[tuple[int, float]]:
    """(shift, median difference of lengths): step n of the second is step n + shift of the first. None is first."""
    least = max(1, min(len(a), len(b)) // 2)
    found = []
    for shift in sorted(range(least - len(b), len(a) - least + 1), key=abs):
        first = a[max(0, shift) : shift + len(b)]
        second = b[max(0, -shift) : max(0, -shift) + len(first)]
        found.append((shift, float(np.median(np.abs(first - second)))))
    return found


def _overlap(shift: int, a: LongArray, b: LongArray) -> int:
    return min(len(a), shift + len(b)) - max(0, shift)


def _pairs(by: Matching, sides: tuple[Columns, Columns], a: LongArray, b: LongArray) -> StepPairs:
    left = [
        tuple(np.delete(rows.ints("step")[0], chosen).tolist()) for rows, chosen in zip(sides, (a, b), strict=True)
    ]
    return StepPairs(by, a, b, left[0], left[1])


def _range(numbers: LongArray) -> str:
    return f"steps {numbers.min()} to {numbers.max()}" if len(numbers) else "no steps"
