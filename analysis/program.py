"""From tables to a queue program: host events in order, and what each operation waits for."""

from __future__ import annotations

import numpy as np

from ..instrumentation.queues import Enqueue, HostWait, HostWork, Instruction
from .columns import Columns, LongArray
from .costs import launch_latencies, wait_costs
from .operations import Operations
from .tables import Process

ENQUEUE, MARK, WAIT, BLOCKING = 0, 1, 2, 3
"""Kinds of host events, in the order in which events of the same instant happen: a call ends before a border, and
waits and blocking copies, which take their time from then on, begin after it."""


def pause_of(op: int) -> int:
    """The number of the pause before operation `op`: what the device needs to go over to it from the one before.

    An operation that waited in the queue does not start in the very nanosecond in which the one before it ends. The
    pause stands before it on its queue, so start = max(host's enqueueing + latency, end of the one before + pause).
    """
    return -1 - op


class ProgramBuilder:
    """Turns host events in order into instructions. Operations are numbered by their position in `ops`."""

    def __init__(self, process: Process, ops: Operations) -> None:
        self._process = process
        self._ops = ops
        self._index = ops.index()
        self._events = self._edges()
        times, kinds, refs = self._host_events()
        self.origin_ns = int(times.min())
        order = np.lexsort((kinds, times))
        self._queue = list(zip((times - self.origin_ns)[order].tolist(), kinds[order].tolist(), refs[order].tolist(),
                               strict=True))
        self.start = ops.start_ns - self.origin_ns
        self.end = ops.end_ns - self.origin_ns
        self._ends, self._durations = self.end.tolist(), np.maximum(0, self.end - self.start).tolist()
        calibration = process.rows("calibration")
        self.latency = self._place_starts(calibration)
        self._wait_costs = wait_costs(calibration, [
            (call - self.origin_ns, back - self.origin_ns, self._ends[op])
            for call, back, op in self._wait_rows if op is not None
        ])
        blocking = np.flatnonzero(ops.blocking)
        self._returns = dict(zip(blocking.tolist(), (ops.enqueued_ns[blocking] - self.origin_ns).tolist(), strict=True))
        self._at = [-1] * len(ops)
        self.step_at: list[int] = []
        self.untied: list[tuple[int, int]] = []
        """Begin and end, from the origin, of waits for what is not known: host work to a replay."""
        self._program: list[Instruction] = []
        self._phases: list[str | None] = []
        self._phase: str | None = None
        self._now = 0

    @property
    def at(self) -> LongArray:
        """Operation -> index of its Enqueue in the program, -1 before `run`."""
        return np.array(self._at, dtype=np.int64)

    def _place_starts(self, calibration: Columns) -> dict[str, int]:
        """Split each operation's delay into launch latency and pause; returns the usual latency of each group."""
        enqueued = self._points() - self.origin_ns
        blocked, delay = np.array(self._queue_bound(), dtype=np.int64), self.start - enqueued
        # Started by the host: its queue had nothing to do when it was handed over, and its place is no estimate.
        host_started = (blocked <= enqueued) & ~self._ops.placed
        groups = self._ops.latency_group
        found = launch_latencies(calibration, groups, delay, host_started)
        usual = np.array([found[group] for group in groups], dtype=np.int64)
        behind = (blocked > enqueued) & (delay > usual)  # the queue was busy, and it waited for it
        late = self.start > blocked
        self._latencies = np.where(behind | ~late, np.minimum(usual, delay), delay).tolist()
        self._pauses = np.where(behind & late, self.start - blocked, 0).tolist()
        return found

    def _points(self) -> LongArray:
        """When an operation is handed over: the end of its call, or the start of a call that it runs inside."""
        points: LongArray = np.where(self._ops.blocking, self._ops.call_ns, self._ops.enqueued_ns)
        return points

    def _edges(self) -> dict[int, tuple[int, ...]]:
        """Operation -> operations of other queues that it waits for by an event, if they were enqueued before it."""
        edges = self._process.rows("edges")
        edges = edges[edges.matches("kind", "event")]
        waiting, has_waiting = edges.ints("waiting")
        awaited, has_awaited = edges.ints("awaited")
        found: dict[int, tuple[int, ...]] = {}
        usable = has_waiting & has_awaited
        for later, earlier in zip(waiting[usable].tolist(), awaited[usable].tolist(), strict=True):
            op, before = self._index.get(later), self._index.get(earlier)
            if op is not None and before is not None and before < op:
                found[op] = (*found.get(op, ()), before)
        return found

    def _host_events(self) -> tuple[LongArray, LongArray, LongArray]:
        """(time, kind, reference) of enqueues, waits and borders; the reference is a position in its own list."""
        enqueues = self._points()
        waits = self._process.rows("waits")
        call, has_call = waits.ints("start_ns")
        back, has_back = waits.ints("end_ns")
        awaited, has_awaited = waits.ints("awaited")
        whole = has_call & has_back
        self._wait_rows = [
            (begin, end, self._index.get(op) if known else None)
            for begin, end, op, known in zip(call[whole].tolist(), back[whole].tolist(), awaited[whole].tolist(),
                                             has_awaited[whole].tolist(), strict=True)
        ]
        marks = self._mark_times()
        times = np.concatenate((enqueues, marks, call[whole]))
        kinds = np.repeat([ENQUEUE, MARK, WAIT], [len(enqueues), len(marks), int(whole.sum())])
        kinds[: len(enqueues)][self._ops.blocking] = BLOCKING
        refs = np.concatenate([np.arange(count) for count in (len(enqueues), len(marks), int(whole.sum()))])
        return times, kinds, refs

    def _mark_times(self) -> LongArray:
        """Starts of steps and borders of phases. `_marks[i]` says what mark i is: (step row or -1, phase after it)."""
        steps = self._process.rows("steps")
        start, has_start = steps.ints("start_ns")
        numbers, numbered = steps.ints("step")
        whole = has_start & numbered
        order = np.argsort(start[whole], kind="stable")
        self.step_numbers = numbers[whole][order]
        spans = self._process.rows("spans")
        rows = spans[spans.matches("kind", "phase")]
        begin, has_begin = rows.ints("start_ns")
        end, has_end = rows.ints("end_ns")
        timed = has_begin & has_end
        names = [name for name, ok in zip(rows.texts("name"), timed, strict=True) if ok]
        borders = sorted(
            [(int(time), 0, None) for time in end[timed]]
            + [(int(time), 1, name) for time, name in zip(begin[timed], names, strict=True)],
            key=lambda border: border[:2],
        )
        self._marks: list[tuple[bool, str | None]] = [(True, None)] * int(whole.sum())
        self._marks += [(False, name) for _, _, name in borders]
        return np.concatenate((start[whole][order], np.array([border[0] for border in borders], dtype=np.int64)))

    def _queue_bound(self) -> list[int]:
        """For each operation the latest of what it waits for on the device, -1 where nothing came before it."""
        tails: dict[str, int] = {}
        bound = []
        for op, lane in enumerate(self._ops.lane):
            latest = tails.get(lane, -1)
            if op in self._events:
                latest = max(latest, *(self._ends[before] for before in self._events[op]))
            bound.append(latest)
            tails[lane] = self._ends[op]
        return bound

    def run(self) -> tuple[list[Instruction], list[str | None]]:
        """The program and the phase of each instruction."""
        handlers = (self._enqueue, self._mark, self._wait, self._enqueue)
        for time, kind, ref in self._queue:
            if time > self._now or not self._program:
                self._work_until(time)
            handlers[kind](ref)
        return self._program, self._phases

    def _add(self, instruction: Instruction) -> None:
        self._program.append(instruction)
        self._phases.append(self._phase)

    def _work_until(self, time: int) -> None:
        if time > self._now or not self._program:
            self._add(HostWork(max(0, time - self._now)))
            self._now = max(self._now, time)

    def _enqueue(self, op: int) -> None:
        lane, latency, waits = self._ops.lane[op], self._latencies[op], self._events.get(op, ())
        pause = self._pauses[op]
        if pause:
            self._add(Enqueue(pause_of(op), lane, pause, latency - pause, waits))
            waits = ()
        self._at[op] = len(self._program)
        self._add(Enqueue(op, lane, self._durations[op], latency, waits))
        back = self._returns.get(op)
        if back is not None:
            self._add(HostWait(op, 0, back - self._ends[op]))
            self._now = back

    def _mark(self, ref: int) -> None:
        is_step, phase = self._marks[ref]
        if is_step:
            self.step_at.append(len(self._program) - 1)
        else:
            self._phase = phase

    def _wait(self, ref: int) -> None:
        begin, end, op = self._wait_rows[ref]
        call, back = begin - self.origin_ns, end - self.origin_ns
        if op is None or self._at[op] < 0:  # unknown, or enqueued later: not a dependency that a replay could keep
            self.untied.append((call, back))
            self._work_until(back)
            return
        self._add(HostWait(op, *self._wait_costs.of(call, back, self._ends[op])))
        self._now = back
