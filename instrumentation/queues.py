"""The queue model: when operations on device queues start and end, in exact integer nanoseconds.

    start(op) = max(host enqueue end + launch latency, end of the operation before it on its lane,
                    ends of the operations that it waits for)
    end(op)   = start(op) + duration(op)
    a host wait returns at max(call + overhead, end of the awaited operation + wake-up)

Only maxima and sums occur (a max-plus recurrence), so one pass in enqueue order is exact. The `sim` device runs it
forwards with `QueueModel`; the analysis rebuilds a program of `HostWork`, `Enqueue`, `HostWait` and `HostUntil` from a
Recording and runs `replay`, once as recorded and once with a duration changed.

Source of the recurrence: Baccelli, Cohen, Olsder, Quadrat, "Synchronization and Linearity", 1992, chapter 1 (timed
event graphs).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Cause = Literal["host", "lane", "wait"]


class OpTimes(NamedTuple):
    """When one operation ran, and the binding term of the maximum that set its start.

    `cause` is "host" (the host enqueued it last of all), "lane" (the operation before it on its lane) or "wait" (an
    operation that it waited for); `cause_op` is that operation, None for "host". On a tie host comes before lane,
    lane before wait: the operation named would have changed nothing by itself.
    """

    ready_ns: int
    start_ns: int
    end_ns: int
    cause: Cause
    cause_op: int | None


class QueueModel:
    """Lanes (device queues, first in first out), fed in enqueue order.

    An operation is known by the number that its caller gives it. Everything that an operation waits for must have been
    enqueued before, as on a real device, where an event is recorded before it is waited for.
    """

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self._tails: dict[str, tuple[int, int]] = {}  # lane -> (last operation, its end)

    def enqueue(
        self, op: int, lane: str, ready_ns: int, duration_ns: int, waits: Iterable[int] = (),
    ) -> OpTimes:
        """Append operation `op` to `lane`. `ready_ns` is the host's enqueue end plus the launch latency.

        Raises ValueError if `op` was enqueued before, if `duration_ns` is negative, or for an unknown operation in
        `waits`.
        """
        if op in self._ends:
            raise ValueError(f"operation {op} is enqueued twice")
        if duration_ns < 0:
            raise ValueError(f"operation {op} has a negative duration: {duration_ns} ns")
        start_ns, cause, cause_op = self.next_start(lane, ready_ns, waits)
        end_ns = start_ns + duration_ns
        self._ends[op] = end_ns
        self._tails[lane] = (op, end_ns)
        return OpTimes(ready_ns, start_ns, end_ns, cause, cause_op)

    def next_start(self, lane: str, ready_ns: int, waits: Iterable[int] = ()) -> tuple[int, Cause, int | None]:
        """(start_ns, cause, cause_op) of an operation that would be enqueued now; changes nothing."""
        start_ns: int = ready_ns
        cause: Cause = "host"
        cause_op: int | None = None
        tail = self._tails.get(lane)
        if tail is not None and tail[1] > start_ns:
            cause, (cause_op, start_ns) = "lane", tail
        for awaited in waits:
            end_ns = self.end_of(awaited)
            if end_ns > start_ns:
                start_ns, cause, cause_op = end_ns, "wait", awaited
        return start_ns, cause, cause_op

    def end_of(self, op: int) -> int:
        """End of operation `op` in ns. Raises ValueError if it was never enqueued, or forgotten."""
        try:
            return self._ends[op]
        except KeyError:
            raise ValueError(f"operation {op} is not in the queue model") from None

    def lane_end(self, lane: str) -> int | None:
        """End of everything enqueued on `lane` so far, in ns; None if nothing was."""
        tail = self._tails.get(lane)
        return None if tail is None else tail[1]

    def forget(self, op: int) -> None:
        """Drop an operation that nothing will wait for any more, so that a long run does not grow without end."""
        self._ends.pop(op, None)


# Instructions are named tuples, not dataclasses: a long recording makes hundreds of thousands of them.


class HostWork(NamedTuple):
    """The host computes for `duration_ns`."""

    duration_ns: int


class HostUntil(NamedTuple):
    """The host has nothing to do before `time_ns` (an arrival, say); no effect when that has passed."""

    time_ns: int


class Enqueue(NamedTuple):
    """The host spends `host_cost_ns` in a call; the operation may start `latency_ns` after the call's end."""

    op: int
    lane: str
    duration_ns: int
    latency_ns: int = 0
    waits: tuple[int, ...] = ()
    host_cost_ns: int = 0


class HostWait(NamedTuple):
    """The host blocks until operation `op` has ended: returns at max(call + overhead, end + wake-up).

    `overhead_ns` is what the call costs when the operation has long ended, `wakeup_ns` what passes between the
    operation's end and the return when the host really had to wait; None takes the same number for both.
    """

    op: int
    overhead_ns: int = 0
    wakeup_ns: int | None = None


Instruction = HostWork | HostUntil | Enqueue | HostWait


@dataclass(frozen=True, slots=True)
class Replay:
    """What a program did: the times of each operation, and the host's time after each instruction."""

    ops: Mapping[int, OpTimes]
    host_ns: tuple[int, ...]


def host_wait_return(call_ns: int, end_ns: int, overhead_ns: int, wakeup_ns: int | None = None) -> int:
    """When a host wait called at `call_ns` for an operation that ends at `end_ns` returns, in ns."""
    return max(call_ns + overhead_ns, end_ns + (overhead_ns if wakeup_ns is None else wakeup_ns))


def replay(
    program: Sequence[Instruction], durations: Mapping[int, int] | None = None, *, start_ns: int = 0,
) -> Replay:
    """Run `program` on one host thread from `start_ns`; `durations` (op -> ns) replace the recorded ones.

    A HostWork followed by an Enqueue of cost 5 and latency 2, from 0, with nothing else on the lane:

        replay([HostWork(10), Enqueue(1, "gpu:compute", 30, latency_ns=2, host_cost_ns=5), HostWait(1, 4)])
        op 1: ready 17, start 17, end 47; host times (10, 15, 51)

    Raises ValueError for a program that waits for an operation that it has not enqueued.
    """
    queues = QueueModel()
    enqueue, end_of = queues.enqueue, queues.end_of
    overrides = {} if durations is None else durations
    ops: dict[int, OpTimes] = {}
    host_times: list[int] = []
    now_ns = start_ns
    for instruction in program:
        if isinstance(instruction, HostWork):
            now_ns += instruction.duration_ns
        elif isinstance(instruction, Enqueue):
            op, lane, duration_ns, latency_ns, waits, host_cost_ns = instruction
            now_ns += host_cost_ns
            ops[op] = enqueue(op, lane, now_ns + latency_ns, overrides.get(op, duration_ns), waits)
        elif isinstance(instruction, HostWait):
            end_ns = end_of(instruction.op)
            now_ns = host_wait_return(now_ns, end_ns, instruction.overhead_ns, instruction.wakeup_ns)
        else:
            now_ns = max(now_ns, instruction.time_ns)
        host_times.append(now_ns)
    return Replay(ops, tuple(host_times))
