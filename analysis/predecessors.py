"""What stood before an operation: on its queue, and in the replay, where it bound the operation's start."""

from __future__ import annotations

import numpy as np

from .replay import Timeline
from .tables import LongArray


def lane_predecessors(line: Timeline) -> LongArray:
    """For each operation the one before it on its queue, -1 for the first."""
    tails: dict[str, int] = {}
    before = np.full(len(line.ops), -1, dtype=np.int64)
    for op, lane in enumerate(line.ops.lane):
        before[op] = tails.get(lane, -1)
        tails[lane] = op
    return before


def predecessor_of(line: Timeline, op: int) -> str:
    """host (its enqueueing), copy, peer (the operation before it on its queue) or event (one of another queue)."""
    times = line.binding(op)
    if times.cause_op is None:
        return "host"
    if line.ops.copy_row[times.cause_op] >= 0:
        return "copy"
    return "peer" if times.cause == "lane" else "event"


def tolerance_of(line: Timeline, op: int) -> int:
    """Idle time before an operation up to which its queue is not idle: launch latency + 2 x err."""
    return line.latency_ns[line.ops.kind[op]] + 2 * int(line.ops.err_ns[op])
