"""How much of a copy is left exposed, how much is hidden and behind what: answers of the queue model, not of overlap.

    exposed = start of the copy's first consumer - its start if the copy took no time (all else as recorded)
    hidden  = |C| - exposed
    queue_delay = start of the copy - end of its enqueueing call; null where it started before that end (`queue_delays`)
    exposed_step = what the steady period of a step loses when the buffer's copies take no time in any step (|C| := 0)
    commit_step = the same when they are not even made: neither the copy nor the host's call takes time. This is what an
                  arm without the copy shows, and it is more than exposed_step where the host binds (`without_copy`)

Both compare the paces of blocks of steps, as arms that took turns are compared (`what_if.period_change`).

Of a copy that runs inside its own call (pageable memory) the wait for it is part of what a free copy would spare.

`exposed` asks about one copy in one step, `exposed_step` about the run: with two steps in flight a copy delays its own
consumer fully and may still cost the period nothing, or the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from .operations import Operations
from .overlap import RESOLUTION
from .replay import Timeline, changed, first_consumers, replays
from .stats import Number, midmean
from .tables import Process, TableSource, processes, records, stack
from .what_if import period_change, steady_steps
from .window import MASKS, masks, window
from .without_copy import usual_range_ns, without

COLUMNS = {
    "step": "Int64", "counted": "boolean", "size_bytes": "Int64", "copy_ns": "Int64", "queue_delay_ns": "Int64",
    "exposed_ns": "Int64", "hidden_ns": "Int64", **{f"hidden_by_{mask}_ns": "Int64" for mask in MASKS},
    "reason": "string",
}
COMMIT_RANGES = {"block_table": "commit_block_table"}
"""Buffer -> the host range in which it is copied, where that has a range of its own."""
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Exposure:
    """Exposure of a buffer's copies.

    steps             a row a copy: step, counted, size_bytes, copy_ns, queue_delay_ns, exposed_ns, hidden_ns,
                      hidden_by_host_ns, hidden_by_previous_forward_ns, hidden_by_copy_ns, hidden_by_other_ns, reason
    exposed_step_ns   copies free: by how much the pace is shorter; None with `exposed_step_reason`
    misfit_ns         how far the unchanged replay strays from the recording at most (0 for a modelled one); None when
                      nothing could be replayed
    left_out          device operations that could not be replayed (no enqueueing call or no device times)
    commit_step_ns    copies and calls left out, of the block table, whose host range is known; None as exposed_step_ns
    """

    steps: pd.DataFrame
    exposed_step_ns: Number | None
    exposed_step_reason: str | None
    misfit_ns: int | None
    left_out: int
    commit_step_ns: Number | None = None


def exposure(recording: TableSource, buffer: str = "block_table") -> Exposure:
    """Exposure of the copies of `buffer` to the device. Of several processes the period change is that of the first."""
    replayed = replays(recording)
    steps = stack([(process, records(_rows(process, line, buffer), COLUMNS)) for process, line in replayed.parts])
    if replayed.first is None:
        return Exposure(steps, None, "no device operation can be replayed", None, 0)
    value, reason = _exposed_step(*replayed.first, buffer)
    known = [line for _, line in replayed.parts if line is not None]
    commit = None
    if value is not None and buffer in COMMIT_RANGES:
        process, line = replayed.first
        commit = period_change(process, line, without(line, process, buffer, COMMIT_RANGES[buffer]))[0]
    return Exposure(
        steps, value, reason, max(line.misfit_ns for line in known), sum(line.ops.left_out for line in known), commit,
    )


def commit_step(recording: TableSource, behind: TableSource, buffer: str = "block_table") -> Number | None:
    """`Exposure.commit_step_ns` where another recording tells what the host's range costs behind other calls of its
    step: `behind`, of an arm that commits last in the same launch. None where there is no replay, no such range or too
    few steps.

    The midmean over the steady steps of what each loses.
    """
    replayed, others = replays(recording), processes(behind)
    if replayed.first is None or not others or buffer not in COMMIT_RANGES:
        return None
    process, line = replayed.first
    here, there = (usual_range_ns(one, COMMIT_RANGES[buffer]) for one in (process, others[0]))
    if not here or there is None or _exposed_step(process, line, buffer)[0] is None:
        return None
    after = without(line, process, buffer, COMMIT_RANGES[buffer], min(Fraction(1), Fraction(there, here)))
    less = np.diff(line.step_starts(line.baseline)) - np.diff(line.step_starts(after))
    return midmean(less[steady_steps(process, line)])


def _rows(process: Process, line: Timeline | None, buffer: str) -> Iterator[Row]:
    """A row for each host-to-device copy of `buffer`, in recorded order."""
    copies = process.rows("copies")
    chosen = np.flatnonzero(copies.matches("buffer", buffer) & ~copies.matches("direction", "d2h"))
    found = _exposed(process, line, buffer) if line is not None else {}
    step, in_step = copies.ints("step")
    counted = in_step & process.is_counted(step)
    size, has_size = copies.ints("size_bytes")
    start, has_start = copies.ints("start_ns")
    end, has_end = copies.ints("end_ns")
    enqueued, has_enqueued = copies.ints("enqueue_end_ns")
    for row in chosen.tolist():
        timed = has_start[row] and has_end[row]
        delayed = has_start[row] and has_enqueued[row] and start[row] >= enqueued[row]
        yield {
            "step": step[row] if in_step[row] else None, "counted": bool(counted[row]),
            "size_bytes": size[row] if has_size[row] else None, "copy_ns": end[row] - start[row] if timed else None,
            "queue_delay_ns": start[row] - enqueued[row] if delayed else None,
            **found.get(row, {"reason": "the copy has no device times or no enqueueing call"}),
        }


def _exposed(process: Process, line: Timeline, buffer: str) -> dict[int, Row]:
    """Row of `copies` -> exposed, hidden and its split, or the reason why not."""
    ops = line.ops
    copies = np.array([op for op, name in enumerate(ops.buffer) if name == buffer], dtype=np.int64)
    readers = first_consumers(process, ops, copies)
    consumer_of = dict(zip(copies.tolist(), readers.tolist(), strict=True))
    err, has_err = process.rows("copies").ints("err_ns")
    found: dict[int, Row] = {}
    tails: dict[str, int] = {}
    for op, lane in enumerate(ops.lane):
        if op in consumer_of and not ops.placed[op]:
            row = int(ops.copy_row[op])
            known_err = int(err[row]) if has_err[row] else None
            reason = _why_not(ops, op, consumer_of[op], known_err)
            found[row] = {"reason": reason} if reason else _one(line, op, consumer_of[op], tails)
        tails[lane] = op
    return found


def _why_not(ops: Operations, copy: int, consumer: int, err_ns: int | None) -> str | None:
    if consumer < 0:
        return "the copy's first consumer is not declared"
    if consumer < copy:
        return "the declared consumer was enqueued before the copy"
    if err_ns is None:
        return "error of the copy's times is unknown"
    if int(ops.end_ns[copy]) - int(ops.start_ns[copy]) < RESOLUTION * err_ns:
        return f"copy shorter than {RESOLUTION} times its error"
    return None


def _one(line: Timeline, copy: int, consumer: int, tails: dict[str, int]) -> Row:
    times = line.baseline.ops[copy]
    cut = window(line, copy, consumer, tails)
    free = cut.free()
    exposed = line.baseline.ops[consumer].start_ns - free.ops[consumer].start_ns
    hidden = times.end_ns - times.start_ns - exposed
    split = masks(line, cut, free, hidden)
    return {"exposed_ns": exposed, "hidden_ns": hidden, **{f"hidden_by_{mask}_ns": split[mask] for mask in MASKS}}


def _exposed_step(process: Process, line: Timeline, buffer: str) -> tuple[Number | None, str | None]:
    steady = line.step_numbers[steady_steps(process, line)]
    copied = {int(step) for step, name in zip(line.ops.step, line.ops.buffer, strict=True) if name == buffer}
    if len(steady) and copied.isdisjoint(steady.tolist()):
        return None, f"no copy of {buffer} in a steady step can be replayed"
    return period_change(process, line, changed(line, {buffer: 0.0}, {}))
