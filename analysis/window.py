"""A short program from one copy to its first consumer, replayed with the copy free, and what the consumer waited for.

The window starts where the host enqueues the copy and ends where it enqueues the consumer: nothing before depends on
the copy, nothing after can delay the consumer. What the queues were still doing at the start stands in as operations
that end when they did. So the exposure of every copy of a long run costs one pass over the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..instrumentation.queues import Enqueue, HostWait, Instruction, OpTimes, Replay, replay
from .replay import Timeline

Masks = Mapping[str, int]
MASKS = ("host", "previous_forward", "copy", "other")
"""What a copy can hide behind: host work (launch latency included), a forward of an earlier step, another copy, or any
other device operation."""


@dataclass(frozen=True, slots=True)
class Window:
    """One copy's window. Positions count in the timeline's `ops`; times in ns from its origin."""

    copy: int
    consumer: int
    program: tuple[Instruction, ...]
    begin_ns: int
    places: Mapping[int, int]  # operation enqueued in the window -> index of its Enqueue in `program`

    def free(self) -> Replay:
        """Replay with a copy that takes no time."""
        return replay(self.program, {self.copy: 0}, start_ns=self.begin_ns)


def window(line: Timeline, copy: int, consumer: int, tails: Mapping[str, int]) -> Window:
    """Cut the window of `copy` out of the timeline. `tails`: lane -> last operation enqueued before the copy."""
    first, last = line.begin(copy), int(line.at[consumer])
    begin = line.baseline.host_ns[first]
    inside = line.program[first : last + 1]
    earlier = _awaited_from_before(line, inside, first)
    lanes = {op: lane for lane, op in tails.items()}
    stand_ins = [  # points on the queue at the operations' ends, which may lie before the window
        Enqueue(op, lanes.get(op, f"past:{op}"), 0, latency_ns=line.baseline.ops[op].end_ns - begin)
        for op in dict.fromkeys((*lanes, *earlier))
    ]
    program = (*stand_ins, *inside)
    places = {step.op: index for index, step in enumerate(program) if isinstance(step, Enqueue)}
    for stand_in in stand_ins:
        del places[stand_in.op]
    return Window(copy, consumer, program, begin, places)


def _awaited_from_before(line: Timeline, inside: Sequence[Instruction], first: int) -> list[int]:
    """Operations that the window waits for and that were enqueued before it."""
    found: dict[int, None] = {}
    for step in inside:
        if isinstance(step, HostWait):
            found[step.op] = None
        elif isinstance(step, Enqueue):
            found.update(dict.fromkeys(step.waits))
    return [op for op in found if line.at[op] < first]


def masks(line: Timeline, cut: Window, free: Replay, hidden_ns: int) -> Masks:
    """What hid the copy: `hidden_ns` split by what the consumer's critical path did meanwhile, the copy being free.

    The path runs back from the consumer through whatever bound each start. Its part from the copy's start onwards for
    `hidden_ns` is what the copy ran beside; the parts sum to `hidden_ns`.
    """
    low = free.ops[cut.copy].start_ns
    high = low + hidden_ns
    parts = dict.fromkeys(MASKS, 0)
    for begin, end, mask in _path(line, cut, free, low):
        parts[mask] += max(0, min(end, high) - max(begin, low))
    return parts


Segment = tuple[int, int, str]


def _path(line: Timeline, cut: Window, free: Replay, until_ns: int) -> list[Segment]:
    """Segments (start, end, mask) of the consumer's critical path, latest first, back to `until_ns`."""
    segments: list[Segment] = []
    op: int | None = cut.consumer
    while op is not None:
        times = _times(line, cut, free, op)
        if times.start_ns <= until_ns:
            break
        if times.cause_op is not None:
            op = times.cause_op
            before = _times(line, cut, free, op)
            segments.append((before.start_ns, before.end_ns, _mask(line, cut, op)))
        elif op in cut.places:
            op = _host_path(line, cut, free, op, segments)
            if op is None:  # a copy may start before its call returns: until then the host was in that call
                segments.append((until_ns, cut.begin_ns, "host"))
        else:  # enqueued before the window: from there on the host's past lies before the copy
            segments.append((min(until_ns, times.start_ns), times.start_ns, "host"))
            break
    return segments


def _times(line: Timeline, cut: Window, free: Replay, op: int) -> OpTimes:
    """Times of `op`; of a stand-in those of the unchanged replay, because the copy came after it."""
    return free.ops[op] if op in cut.places else line.baseline.ops[op]


def _host_path(line: Timeline, cut: Window, free: Replay, op: int, segments: list[Segment]) -> int | None:
    """Back along the host from the start of `op` to the wait that held the host; returns the operation awaited."""
    index = cut.places[op]
    end = free.ops[op].start_ns
    for place in range(index - 1, -1, -1):
        step = cut.program[place]
        if isinstance(step, HostWait):
            done = free.ops[step.op].end_ns
            before = free.host_ns[place - 1] if place else cut.begin_ns
            if free.host_ns[place] > before + step.overhead_ns:  # it really waited
                segments.append((done, end, "host"))
                awaited = _times(line, cut, free, step.op)
                segments.append((awaited.start_ns, done, _mask(line, cut, step.op)))
                return step.op
    segments.append((cut.begin_ns, end, "host"))
    return None


def _mask(line: Timeline, cut: Window, op: int) -> str:
    if op < 0:
        return "other"  # a pause between two operations
    ops = line.ops
    if ops.copy_row[op] >= 0:
        return "copy"
    if ops.phase[op] == "forward" and ops.step[op] < ops.step[cut.copy]:
        return "previous_forward"
    return "other"
