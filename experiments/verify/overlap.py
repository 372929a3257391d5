"""Checks of the copy's figures: overlap bounds by brute force, the replay against a simulation that shares nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from ...analysis.intervals import pairwise_overlap_bounds
from ...instrumentation.queues import Enqueue, HostWait, HostWork, Instruction, replay
from .check import Check, Finding, Setting, exact, replaced

LANES = ("gpu:compute", "gpu:copy", "gpu:output")
Program = list[Instruction]


def _bounds(setting: Setting) -> Sequence[Finding]:
    """Overlap of two intervals, its least and its most, against trying every shift in steps of half a nanosecond."""
    rng = np.random.default_rng(setting.random("bounds").getrandbits(64))
    count = setting.count(100_000, 3_000)
    starts, lengths = rng.integers(0, 40, (count, 2)), rng.integers(0, 30, (count, 2))
    c, b = (np.stack((starts[:, i], starts[:, i] + lengths[:, i]), axis=1) for i in (0, 1))
    err = rng.integers(0, 25, count) / 2
    value, low, high = pairwise_overlap_bounds(c, b, err)
    shifts = np.arange(-25, 26) / 2  # |C and B| bends at whole shifts only, and errors are halves
    moved = np.minimum(c[:, 1, None] + shifts, b[:, 1, None]) - np.maximum(c[:, 0, None] + shifts, b[:, 0, None])
    shared = np.maximum(moved, 0)
    inside = np.abs(shifts)[None, :] <= err[:, None]
    least, most = (np.where(inside, shared, far).T for far in (np.inf, -np.inf))
    return [
        exact(f"{count} random pairs: value", 0, int((value != shared[:, 25]).sum())),
        exact(f"{count} random pairs: least over all shifts", 0, int((low != least.min(axis=0)).sum())),
        exact(f"{count} random pairs: most over all shifts", 0, int((high != most.max(axis=0)).sum())),
    ]


def random_program(rng: random.Random, length: int) -> Program:
    """Host work, operations on three lanes that wait for earlier ones, and host waits."""
    program: Program = []
    for op in range(length):
        program.append(HostWork(rng.randint(0, 60)))
        waits = tuple(rng.sample(range(op), min(op, rng.choice((0, 0, 1, 2)))))
        program.append(Enqueue(op, rng.choice(LANES), rng.randint(0, 90), rng.randint(0, 9), waits, rng.randint(0, 12)))
        if rng.random() < 0.2:
            program.append(HostWait(rng.randint(0, op), rng.randint(0, 4), rng.randint(0, 9)))
    return program


def relaxed(program: Sequence[Instruction], durations: dict[int, int]) -> dict[int, int]:
    """Start of each operation by relaxation: every start is raised until no constraint is broken any more.

    It goes over the program again and again and keeps no queues, lanes or host time between two instructions but a
    list, so that it shares no step with `instrumentation.queues`.
    """
    calls = [step for step in program if isinstance(step, Enqueue)]
    lane_before = {
        call.op: max((other.op for other in calls[:at] if other.lane == call.lane), default=None)
        for at, call in enumerate(calls)
    }  # fmt: skip
    took = {call.op: durations.get(call.op, call.duration_ns) for call in calls}
    start = {call.op: 0 for call in calls}
    host = [0] * (len(program) + 1)
    changed = True
    while changed:
        changed = False
        for at, step in enumerate(program):
            if isinstance(step, HostWork):
                time = host[at] + step.duration_ns
            elif isinstance(step, Enqueue):
                time = host[at] + step.host_cost_ns
                before = lane_before[step.op]
                ends = [start[op] + took[op] for op in (*step.waits, *(() if before is None else (before,)))]
                begin = max([time + step.latency_ns, *ends])
                changed, start[step.op] = changed or begin != start[step.op], begin
            else:
                assert isinstance(step, HostWait)
                late = step.overhead_ns if step.wakeup_ns is None else step.wakeup_ns
                time = max(host[at] + step.overhead_ns, start[step.op] + took[step.op] + late)
            changed, host[at + 1] = changed or time != host[at + 1], time
    return start


def _queues(setting: Setting) -> Sequence[Finding]:
    """Start times in random queue graphs, as they are and with one operation that takes no time."""
    rng = setting.random("queues")
    count = setting.count(1_000, 150)
    wrong = wrong_free = 0
    for _ in range(count):
        program = random_program(rng, rng.randint(2, 25))
        free = {rng.randrange(sum(isinstance(step, Enqueue) for step in program)): 0}
        wrong += _starts(program, {}) != relaxed(program, {})
        wrong_free += _starts(program, free) != relaxed(program, free)
    return [
        exact(f"{count} random queue graphs: starts unlike the simulation's", 0, wrong),
        exact(f"{count} random queue graphs with one operation free", 0, wrong_free),
    ]


def _starts(program: Sequence[Instruction], durations: dict[int, int]) -> dict[int, int]:
    return {op: times.start_ns for op, times in replay(program, durations).ops.items()}


CHECKS = (
    Check(
        group="overlap", name="bounds", point=6, run=_bounds,
        mutants={
            "ends_only": replaced("analysis.intervals", "_candidates", lambda whole: lambda *a: whole(*a)[-2:]),
            "no_shift": replaced("analysis.intervals", "_candidates", lambda whole: lambda *a: []),
        },
    ),
    Check(
        group="overlap", name="queues", point=8, run=_queues,
        mutants={
            "lanes_forgotten": replaced(
                "instrumentation.queues", "QueueModel.next_start",
                lambda whole: lambda self, lane, ready, waits=(): whole(self, "", ready, waits),
            ),
            "waits_forgotten": replaced(
                "instrumentation.queues", "QueueModel.next_start",
                lambda whole: lambda self, lane, ready, waits=(): whole(self, lane, ready, ()),
            ),
        },
    ),
)  # fmt: skip
