"""The replay of a run that makes no copies of a buffer: neither the copies nor the host's calls for them.

A free copy (`replay.changed`) still costs the host its call. An arm of an experiment that skips the copy is spared
both, so that is what its replayed counterpart has to leave out. All times are the recording's own, step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ..instrumentation.queues import HostWork, Replay, replay
from .operations import Operations
from .program import pause_of
from .replay import Timeline
from .tables import BoolArray, LongArray, Process


def without(
    line: Timeline, process: Process, buffer: str, range_: str, share: Fraction | None = None
) -> Replay:
    """Replay as if the copies of `buffer` were not made: they take no time, nor does the host in the range around them.

    Each step loses what its own range took. What the host waits for within the range stays; so do copies of other
    ranges, and what the copy's call paid for being the first of its step (`first_calls`), for the next would pay it.

    share   of the range that is saved, where that was measured: what the range takes behind other calls of its step (an
            arm that commits last) over what it takes here. The rest is paid for being first, and the next call pays it
            then: on an H200, synchronous, the range took 109 us first and 69 last on a stream of its own, and the arm
            without it was spared 70; on the compute stream 49, 29 and 27. Calls alone do not show that: part of it is
            paid in the events around them. A share and no time: the speed of a host changes while one measures

    The pause in which the device goes over to the copy goes with it. The copy behind it then has to be gone over to,
    but without the primer that a timed copy is sent with: an H200 took 177.5 us between two forwards with the table's
    8 MiB and 10.2 without, for three small copies and a kernel; the pause was 11.9 and |C| 151.6.
    """
    intervals = _intervals(process, line, range_)
    if share is None:
        begin, end = _cut_out(intervals, first_calls(process, line, buffer))
    else:
        begin, end = intervals[:, 0], intervals[:, 0] + np.diff(intervals)[:, 0] * share.numerator // share.denominator
    spent = np.concatenate(([0], np.cumsum(end - begin)))

    def before(times: LongArray) -> LongArray:
        """Time in the range before each of `times`."""
        place = np.searchsorted(begin, times, side="right")
        inside = np.zeros(len(times), dtype=np.int64)
        inside[place > 0] = np.maximum(0, end[place[place > 0] - 1] - times[place > 0])
        found: LongArray = spent[place] - inside
        return found

    host = np.array(line.baseline.host_ns, dtype=np.int64)
    cut = np.diff(before(np.concatenate(([0], host)))).tolist()
    program = [
        HostWork(max(0, step.duration_ns - less)) if isinstance(step, HostWork) and less else step
        for step, less in zip(line.program, cut, strict=True)
    ]
    left_out = [op for op, name in enumerate(line.ops.buffer) if name == buffer]
    return replay(program, {op: 0 for each in left_out for op in (each, pause_of(each))})


def usual_range_ns(process: Process, range_: str) -> int | None:
    """Lower median of what the host range of that name takes in counted steps; None where it has none."""
    spans = process.counted("spans")
    rows = spans[spans.matches("kind", "range") & spans.matches("name", range_)]
    begin, has_begin = rows.ints("start_ns")
    end, has_end = rows.ints("end_ns")
    took = np.sort((end - begin)[has_begin & has_end])
    return int(took[(len(took) - 1) // 2]) if len(took) else None


def _intervals(process: Process, line: Timeline, range_: str) -> LongArray:
    """[n, 2] start and end of the host ranges of that name, in order, ns from the origin."""
    spans = process.rows("spans")
    rows = spans[spans.matches("kind", "range") & spans.matches("name", range_)]
    begin, has_begin = rows.ints("start_ns")
    end, has_end = rows.ints("end_ns")
    whole = has_begin & has_end
    order = np.argsort(begin[whole], kind="stable")
    found: LongArray = np.stack((begin[whole][order], end[whole][order]), axis=1) - line.origin_ns
    return found


def _cut_out(intervals: LongArray, kept: LongArray) -> tuple[LongArray, LongArray]:
    """Starts and ends of `intervals` without those of `kept` [m, 2]; what lies in none of them is no matter.

        [[10, 50], [90, 95]] without [[20, 28], [60, 70]] -> starts 10, 28, 90; ends 20, 50, 95
    """
    place = np.searchsorted(intervals[:, 0], kept[:, 0], side="right") - 1
    inside = (place >= 0) & (kept[:, 1] <= intervals[np.maximum(place, 0), 1]) if len(intervals) else place >= 0
    kept = kept[inside]
    starts = np.concatenate((intervals[:, 0], kept[:, 1]))
    ends = np.concatenate((intervals[:, 1], kept[:, 0]))
    return np.sort(starts), np.sort(ends)


def first_calls(process: Process, line: Timeline, buffer: str) -> LongArray:
    """[m, 2] start and end, ns from the origin, of what copies of `buffer` paid for being the first call of their step.

    The first copy that a step hands to the driver finds it cold and costs more, whichever copy it is: on an H200 the
    block table's call took 43 us as the first and 15 us as the last of its step, that of the positions 46 us as the
    first and 23 us behind the table's. So of a first call only what the step's other calls cost (their median) is the
    copy's own; the rest, at the end of the call, belongs to the step. Copies of pageable memory run inside their calls
    and are left out.
    """
    ops = line.ops
    took, first_of = ops.enqueued_ns - ops.call_ns, dict(zip(*np.unique(ops.step, return_index=True), strict=True))
    found = []
    for step, members in _by_step(ops, np.flatnonzero(_queued_to_device(process, ops) & (ops.step >= 0))):
        first = int(first_of[step])
        others = [op for op in members if op != first]
        if first in members and ops.buffer[first] == buffer and others:
            own_ns = min(int(took[first]), int(np.median(took[others])))
            found.append((int(ops.call_ns[first]) + own_ns, int(ops.enqueued_ns[first])))
    kept: LongArray = np.array(found, dtype=np.int64).reshape(-1, 2) - line.origin_ns
    return kept


def _queued_to_device(process: Process, ops: Operations) -> BoolArray:
    """Copies to the device that their calls only hand over."""
    found = np.zeros(len(ops), dtype=np.bool_)
    copies = ops.copy_row >= 0
    found[copies] = process.rows("copies").matches("direction", "h2d")[ops.copy_row[copies]]
    return found & ~ops.pageable & ~ops.blocking


def _by_step(ops: Operations, chosen: LongArray) -> Iterator[tuple[int, list[int]]]:
    """The chosen operations of each step."""
    steps = ops.step[chosen]
    order = np.argsort(steps, kind="stable")
    borders = np.flatnonzero(np.diff(steps[order])) + 1
    for part in np.split(chosen[order], borders):
        if len(part):
            yield int(ops.step[part[0]]), part.tolist()
