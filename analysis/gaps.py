"""What each forward waited for: the binding predecessor of its first operation in the replay.

"The host range that runs in the gap" is not the cause of the gap; what bound the start is. Host-bound means that the
device ran dry because the host had not enqueued the forward yet; device-bound that it never did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .inner_gaps import INNER_COLUMNS, inner_rows
from .operations import forward_rows
from .predecessors import lane_predecessors, predecessor_of, tolerance_of
from .replay import Timeline, replays
from .stats import Number, median
from .tables import LongArray, Process, TableSource, ints, records, stack

COLUMNS = {
    "step": "Int64", "counted": "boolean", "predecessor": "string", "root": "string", "idle_before_ns": "Int64",
    "idle_ns": "Int64", "tolerance_ns": "Int64", "bound": "string", "reason": "string", **INNER_COLUMNS,
}
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps before the forwards.

    steps   a row for each step with a forward:
            predecessor     what bound the forward's first operation: host (its enqueueing), copy, event (an operation
                            of another queue), peer (the operation before it on its queue); a copy is always `copy`
            root            the same one step further: where the path leaves this step's own preparation: host, or
                            device (an operation of an earlier step)
            idle_before_ns  from the end of the operation before it on its queue to the start of the forward
            idle_ns         all idle time of that queue since the last operation of an earlier step
            tolerance_ns    launch latency + 2 x err
            bound           device (idle_ns within the tolerance), host, copy or event (what the idle queue waited for)
            and idle time inside the forward and before sampling, see `inner_gaps.INNER_COLUMNS`
    shares  bound -> share of the counted steps that could be judged
    bound   what more than half of them are, "mixed" when nothing is; None with `reason` when there is none
    """

    steps: pd.DataFrame
    shares: dict[str, float]
    bound: str | None
    idle_p50_ns: Number | None
    reason: str | None


def gaps(recording: TableSource) -> Gaps:
    """Judge every forward that can be replayed; see `Gaps`. Null with a reason where there is nothing before it."""
    parts = [
        (process, records(_rows(process, line) if line is not None else [], COLUMNS))
        for process, line in replays(recording).parts
    ]
    steps = stack(parts)
    counted = steps[steps["counted"].fillna(False).to_numpy(dtype=np.bool_) & steps["bound"].notna().to_numpy()]
    counts = Counter(str(bound) for bound in counted["bound"])
    if not counts:
        return Gaps(steps, {}, None, None, "no forward of a counted step can be replayed")
    shares = {bound: count / len(counted) for bound, count in counts.most_common()}
    top, most = next(iter(shares.items()))
    return Gaps(steps, shares, top if most > 0.5 else "mixed", median(ints(counted, "idle_ns")[0]), None)


def _rows(process: Process, line: Timeline) -> list[Row]:
    ops = line.ops
    forward = np.flatnonzero(forward_rows(ops))
    steps, first = np.unique(ops.step[forward], return_index=True)
    counted = process.is_counted(steps)
    before = lane_predecessors(line)
    inner = inner_rows(line, before)
    return [
        {"step": int(step), "counted": bool(ok), **inner[int(step)], **_judge(line, before, int(forward[place]))}
        for step, place, ok in zip(steps, first, counted, strict=True)
    ]


def _judge(line: Timeline, before: LongArray, op: int) -> Row:
    ops = line.ops
    tolerance = tolerance_of(line, op)
    row: Row = {"predecessor": predecessor_of(line, op), "tolerance_ns": tolerance}
    times = line.baseline.ops
    idles = []
    at, earlier = op, int(before[op])
    while earlier >= 0 and ops.step[at] == ops.step[op]:
        idles.append(times[at].start_ns - times[earlier].end_ns)
        at, earlier = earlier, int(before[earlier])
    row["idle_before_ns"] = idles[0] if idles else None
    if ops.step[at] == ops.step[op]:
        return {**row, "reason": "no operation of an earlier step came before it on its queue"}
    idle = sum(idles)
    root, through = _root(line, op)
    bound = "device" if idle <= tolerance else _waited_for(root, through)
    return {**row, "root": root, "idle_ns": idle, "bound": bound}


def _root(line: Timeline, op: int) -> tuple[str, str]:
    """(host or device, what other queue the path behind the start of `op` ran through: copy, event or none)."""
    step, through = line.ops.step[op], ""
    while True:
        times = line.binding(op)
        if times.cause_op is None:
            return "host", through
        if times.cause == "wait" and through != "copy":
            through = "copy" if line.ops.copy_row[times.cause_op] >= 0 else "event"
        op = times.cause_op
        if line.ops.step[op] != step:
            return "device", through


def _waited_for(root: str, through: str) -> str:
    """What an idle queue waited for: with nothing but its own operations behind it, for the device itself, which takes
    5 to 15 us to go over from kernels to a copy and back.
    """
    if through == "copy":
        return "copy"
    return "host" if root == "host" else through or "device"
