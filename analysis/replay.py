"""A queue program rebuilt from a Recording, so that its step can be replayed with something changed.

The host's timeline becomes `HostWork` between its enqueue ends, waits and borders of steps and phases; device
operations keep their recorded durations, their queues, their launch latencies and the events that they wait for.
Replayed unchanged, a modelled recording comes back to the nanosecond (`Timeline.misfit_ns` says how far others stray).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..instrumentation.queues import Enqueue, HostWork, Instruction, OpTimes, Replay, replay
from .operations import Operations, operations
from .program import ProgramBuilder, pause_of
from .tables import NOBODY, LongArray, Process, Split, TableSource, first_by


@dataclass(frozen=True, slots=True)
class Timeline:
    """One process's program and where things stand in it. Times of the program count from `origin_ns`.

    program        instructions, in host order
    phases         the host phase of each instruction, None outside phases
    at             operation (position in `ops`) -> index of its Enqueue in `program`
    step_numbers   recorded steps in order of their start;  step_at  index of the instruction that ends at that start
    latency_ns     launch latency by group of operations (`Operations.latency_group`), as this recording shows it
    baseline       the program replayed unchanged
    misfit_ns      largest |replayed - recorded| of an operation's start or end
    untied         [n, 2] begin and end of host waits for operations that are not known; a replay cannot shorten them
    """

    origin_ns: int
    ops: Operations
    program: Sequence[Instruction]
    phases: Sequence[str | None]
    at: LongArray
    step_numbers: LongArray
    step_at: LongArray
    latency_ns: Mapping[str, int]
    baseline: Replay
    misfit_ns: int
    untied: LongArray

    def begin(self, op: int) -> int:
        """Index in `program` of the first instruction that belongs to an operation: its pause, or its Enqueue."""
        at = int(self.at[op])
        before = self.program[at - 1] if at else None
        return at - 1 if isinstance(before, Enqueue) and before.op == pause_of(op) else at

    def binding(self, op: int) -> OpTimes:
        """Times of an operation in the unchanged replay; its cause is never its own pause but what bound that."""
        times = self.baseline.ops[op]
        if times.cause_op == pause_of(op):
            before = self.baseline.ops[pause_of(op)]
            return times._replace(cause=before.cause, cause_op=before.cause_op)
        return times

    def step_starts(self, replayed: Replay) -> LongArray:
        """Start of each recorded step in a replay, ns from the origin."""
        host = np.array(replayed.host_ns, dtype=np.int64)
        starts: LongArray = host[self.step_at]
        return starts


def timeline(process: Process) -> Timeline | None:
    """Rebuild the program of a process; None when no operation can be replayed."""
    ops = operations(process)
    if not len(ops):
        return None
    builder = ProgramBuilder(process, ops)
    program, phases = builder.run()
    baseline = replay(program)
    starts = np.array([baseline.ops[op].start_ns for op in range(len(ops))], dtype=np.int64)
    ends = np.array([baseline.ops[op].end_ns for op in range(len(ops))], dtype=np.int64)
    misfit = max(np.abs(starts - builder.start).max(), np.abs(ends - builder.end).max())
    return Timeline(
        origin_ns=builder.origin_ns, ops=ops, program=program, phases=phases, at=builder.at,
        step_numbers=builder.step_numbers, step_at=np.array(builder.step_at, dtype=np.int64),
        latency_ns=builder.latency, baseline=baseline, misfit_ns=int(misfit),
        untied=np.array(builder.untied, dtype=np.int64).reshape(-1, 2),
    )


class Replays(Split):
    """A recording with each process's timeline built once, for several questions to the same replay."""

    def __init__(self, recording: TableSource) -> None:
        super().__init__(recording)
        self.parts = [(process, timeline(process)) for process in self.processes] or [(NOBODY, None)]

    def reason(self, table: str, column: str) -> str | None:
        """Why a column is null, if the recording's meta says so."""
        meta = getattr(self._recording, "meta", None)
        said = meta.reason(table, column) if meta is not None else None
        return said if isinstance(said, str) else None

    @property
    def first(self) -> tuple[Process, Timeline] | None:
        """The first process that can be replayed: questions about "the" period are asked of it."""
        return next(((process, line) for process, line in self.parts if line is not None), None)


def replays(recording: TableSource) -> Replays:
    """The timelines of a recording; handed in again they are not built again."""
    return recording if isinstance(recording, Replays) else Replays(recording)


def changed(
    line: Timeline, copy_factor: Mapping[str, float], phase_factor: Mapping[str, float]
) -> Replay:
    """Replay with copies of named buffers and host work of named phases stretched (0 takes no time, 1 as recorded)."""
    durations = {}
    for op, buffer in enumerate(line.ops.buffer):
        if buffer is not None and buffer in copy_factor:
            recorded = int(line.ops.end_ns[op]) - int(line.ops.start_ns[op])
            durations[op] = round(recorded * copy_factor[buffer])
    program = line.program
    if phase_factor:
        program = [
            HostWork(round(step.duration_ns * phase_factor[phase]))
            if isinstance(step, HostWork) and phase is not None and phase in phase_factor else step
            for step, phase in zip(line.program, line.phases, strict=True)
        ]
    return replay(program, durations)


def first_consumers(process: Process, ops: Operations, copies: LongArray) -> LongArray:
    """For each copy (position in `ops`) the position of its first declared consumer; -1 where none is declared."""
    edges = process.rows("edges")
    edges = edges[edges.matches("kind", "consumer")]
    waiting, has_waiting = edges.ints("waiting")
    awaited, has_awaited = edges.ints("awaited")
    everyone = np.ones(len(ops), dtype=np.bool_)
    reader = first_by(ops.correlation, everyone, waiting)
    usable = has_waiting & has_awaited & (reader >= 0)
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(ops.start_ns[reader[rows]], kind="stable")]
    if not len(rows):
        return np.full(len(copies), -1, dtype=np.int64)
    first = first_by(awaited[rows], np.ones(len(rows), dtype=np.bool_), ops.correlation[copies])
    found: LongArray = np.where(first >= 0, reader[rows[np.maximum(first, 0)]], -1)
    return found
