"""Idle time of the compute queue inside a forward, between its operations, and between the forward and sampling.

A replayed forward is one operation and has no inside. An eager one is hundreds of launches: where the host launches
slower than the device computes, the device idles between them, and that is what a graph would save on the device.

    forward   |op|   |op||op|      |op|        idle before its 2nd and 4th operation, each with what bound it
    sample                              |op|   idle between the forward's end and sampling's first operation
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from .operations import forward_rows
from .predecessors import predecessor_of, tolerance_of
from .replay import Timeline
from .tables import BoolArray, LongArray

INNER_COLUMNS = {
    "forward_ops": "Int64", "forward_gaps": "Int64", "forward_idle_ns": "Int64", "forward_waits_for": "string",
    "sample_idle_ns": "Int64", "sample_waits_for": "string",
}
"""Of a step:

forward_ops        device operations of its forward
forward_gaps       those before which the queue idled for longer than the tolerance
forward_idle_ns    all idle time between the forward's operations
forward_waits_for  what bound most of the gaps' time: host, copy, event, peer; null without a gap
sample_idle_ns     idle time before the first operation of the phase `sample`, since the one before it on its queue
sample_waits_for   what bound that operation's start, where it idled for longer than the tolerance
"""
Row = dict[str, object]


def inner_rows(line: Timeline, before: LongArray) -> dict[int, Row]:
    """Step -> its figures, for steps with a forward. `before` are the operations' predecessors on their queues."""
    found: dict[int, Row] = {}
    forward = forward_rows(line.ops)
    by_step: dict[int, list[int]] = {}
    for op in np.flatnonzero(forward).tolist():
        by_step.setdefault(int(line.ops.step[op]), []).append(op)
    samples = _first_samples(line)
    for step, ops in by_step.items():
        found[step] = {**_forward(line, before, ops, forward), **_sample(line, before, samples.get(step))}
    return found


def _forward(line: Timeline, before: LongArray, ops: list[int], forward: BoolArray) -> Row:
    idles = {op: _idle(line, before, op) for op in ops if before[op] >= 0 and _inside(line, before, op, forward)}
    gaps = {op: idle for op, idle in idles.items() if idle > tolerance_of(line, op)}
    waited: Counter[str] = Counter()
    for op, idle in gaps.items():
        waited[predecessor_of(line, op)] += idle
    return {
        "forward_ops": len(ops), "forward_gaps": len(gaps), "forward_idle_ns": sum(idles.values()),
        "forward_waits_for": waited.most_common(1)[0][0] if waited else None,
    }  # fmt: skip


def _inside(line: Timeline, before: LongArray, op: int, forward: BoolArray) -> bool:
    """Whether the operation before it is of the same forward."""
    earlier = int(before[op])
    return bool(forward[earlier]) and line.ops.step[earlier] == line.ops.step[op]


def _sample(line: Timeline, before: LongArray, op: int | None) -> Row:
    if op is None or before[op] < 0:
        return {}
    idle = _idle(line, before, op)
    return {
        "sample_idle_ns": idle,
        "sample_waits_for": predecessor_of(line, op) if idle > tolerance_of(line, op) else None,
    }  # fmt: skip


def _idle(line: Timeline, before: LongArray, op: int) -> int:
    times = line.baseline.ops
    return max(0, times[op].start_ns - times[int(before[op])].end_ns)


def _first_samples(line: Timeline) -> dict[int, int]:
    """Step -> the first operation that the host enqueued in its phase `sample`, copies left out."""
    found: dict[int, int] = {}
    for op, phase in enumerate(line.ops.phase):
        if phase == "sample" and line.ops.copy_row[op] < 0:
            found.setdefault(int(line.ops.step[op]), op)
    return found
