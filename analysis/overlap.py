"""With what a host-to-device copy shared time: index building, the whole preparation, the forward before it.

These are descriptions. How much of the copy was really hidden is a question for `exposure`: an overlap of 100 % can
make a step slower, and a copy without any overlap can cost nothing.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .intervals import pairwise_overlap_bounds
from .operations import Operations, forward_rows, operations
from .replay import Replays
from .tables import (
    BoolArray,
    LongArray,
    Process,
    TableSource,
    gather,
    nullable,
    nullable_floats,
)

PARTNERS = ("build", "preprocess", "previous_forward")
RESOLUTION = 4
"""A copy shorter than this many times its error has no overlap fraction."""


def copy_overlap(recording: TableSource, buffer: str = "block_table") -> pd.DataFrame:
    """A row for each copy of `buffer`, in recorded order.

    Columns: step, counted (its step is neither warm-up nor incomplete), size_bytes, copy_ns = |C|, err_ns, queued; and
    for each partner `build` (C with `build_indices` of its step), `preprocess` and `previous_forward` (the interval
    from the first to the last device operation of the latest earlier forward):
    X_ns, X_min_ns, X_max_ns (over all shifts of C by at most err_ns), X_fraction (of |C|);
    reason: why something is null, else null.
    """
    known = {process: line.ops for process, line in recording.parts if line} if isinstance(recording, Replays) else {}
    return gather(recording, lambda process: _copy_overlap(process, known.get(process) or operations(process), buffer))


def _copy_overlap(process: Process, ops: Operations, buffer: str) -> pd.DataFrame:
    copies = process.rows("copies")
    copies = copies[copies.matches("buffer", buffer)]
    start, has_start = copies.ints("start_ns")
    end, has_end = copies.ints("end_ns")
    err, has_err = copies.ints("err_ns")
    step, in_step = copies.ints("step")
    timed = has_start & has_end
    resolved = timed & has_err & (end - start >= RESOLUTION * err) & (end > start)
    table: dict[str, object] = {
        "step": nullable(step, in_step), "counted": in_step & process.is_counted(step),
        "size_bytes": nullable(*copies.ints("size_bytes")), "copy_ns": nullable(end - start, timed),
        "err_ns": nullable(err, has_err), "queued": copies.flags("queued", null=False),
    }
    reasons = _reasons(timed, has_err, resolved)
    partners = {
        "build": spans_by_step(process, "range", "build_indices", step),
        "preprocess": spans_by_step(process, "phase", "preprocess", step),
        "previous_forward": _previous_forward(ops, step),
    }
    for name, (there, found) in partners.items():
        found = found & in_step
        both = timed & found
        value, low, high = pairwise_overlap_bounds(np.stack((start, end), axis=1), there, err)
        table[f"{name}_ns"] = nullable(value, both)
        table[f"{name}_min_ns"] = nullable(low, both & has_err)
        table[f"{name}_max_ns"] = nullable(high, both & has_err)
        fraction = value / np.where(resolved, end - start, 1)
        table[f"{name}_fraction"] = nullable_floats(fraction, both & resolved)
        absent = f"{name}: not recorded"
        reasons = [reason or (None if ok else absent) for reason, ok in zip(reasons, found, strict=True)]
    table["reason"] = pd.array(reasons, dtype="string")
    return pd.DataFrame(table)


def _reasons(timed: BoolArray, has_err: BoolArray, resolved: BoolArray) -> list[str | None]:
    words: list[str | None] = []
    for has_times, knows_err, ok in zip(timed, has_err, resolved, strict=True):
        if not has_times:
            words.append("no device times of the copy")
        elif not knows_err:
            words.append("error of the copy's times is unknown")
        else:
            words.append(None if ok else f"copy shorter than {RESOLUTION} times its error")
    return words


def spans_by_step(process: Process, kind: str, name: str, wanted: LongArray) -> tuple[LongArray, BoolArray]:
    """[n, 2] intervals of the host span `name` in the steps `wanted`, and where there is one.

    Several spans of a name in one step give the interval from the first start to the last end.
    """
    spans = process.rows("spans")
    rows = spans[spans.matches("kind", kind) & spans.matches("name", name)]
    step, in_step = rows.ints("step")
    start, has_start = rows.ints("start_ns")
    end, has_end = rows.ints("end_ns")
    whole = in_step & has_start & has_end
    return _hull(step[whole], start[whole], end[whole], wanted)


def _hull(step: LongArray, start: LongArray, end: LongArray, wanted: LongArray) -> tuple[LongArray, BoolArray]:
    """Intervals from the first start to the last end of each wanted step."""
    if not len(step):
        return np.zeros((len(wanted), 2), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    numbers, place = np.unique(step, return_inverse=True)
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    last = np.full(len(numbers), np.iinfo(np.int64).min)
    np.minimum.at(first, place, start)
    np.maximum.at(last, place, end)
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    found = numbers[at] == wanted
    hull = np.stack((np.where(found, first[at], 0), np.where(found, last[at], 0)), axis=1)
    return hull, found


def _previous_forward(ops: Operations, wanted: LongArray) -> tuple[LongArray, BoolArray]:
    """The device interval of the latest forward of a step before each wanted one."""
    forward = forward_rows(ops)
    steps = np.unique(ops.step[forward])
    if not len(steps):
        return np.zeros((len(wanted), 2), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    before = np.searchsorted(steps, wanted, side="left") - 1
    chosen = steps[np.maximum(before, 0)]
    hull, found = _hull(ops.step[forward], ops.start_ns[forward], ops.end_ns[forward], chosen)
    return hull, found & (before >= 0)
