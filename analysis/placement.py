"""Where small copies without device times lie: between their neighbours on their queue.

A device that measures by events gives small copies none: an event pair cannot resolve them, and costs more than they
do. But a replay without them would be wrong: the host waits for the smallest of them, the copy of the tokens. What is
known of such a copy are bounds: it starts after the call, after the end of the operation before it and after whatever
another queue had to finish first, and it ends before the operation behind it starts and before a wait for it returns.
Tokens may have a queue of their own, on which nothing was ever timed; then the event that they wait for is the bound.
Within them it is taken to start as early and to last as long as small copies do, as far as there is room. The replay
uses these places; no table shows them as times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .columns import BoolArray, LongArray
from .tables import Process

SMALL_COPY_NS = 2_000
"""What a copy of at most some KiB takes on the device, by the profiler: 0.7 to 2.6 us up to 8 KiB (H200)."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Operations in enqueue order, as parallel columns; times in ns, 0 where `timed` is False.

    awaited_ns  end of the last timed operation of another queue that each waits for by an event, 0 without one
    """

    lane: Sequence[str]
    correlation: LongArray
    enqueued_ns: LongArray
    start_ns: LongArray
    end_ns: LongArray
    timed: BoolArray
    awaited_ns: LongArray


def wait_returns(process: Process) -> dict[int, int]:
    """Operation -> when the first wait for it returned: it had ended by then."""
    waits = process.rows("waits")
    awaited, has_awaited = waits.ints("awaited")
    back, has_back = waits.ints("end_ns")
    known = has_awaited & has_back
    found: dict[int, int] = {}
    for op, time in zip(awaited[known].tolist(), back[known].tolist(), strict=True):
        found.setdefault(op, time)
    return found


def place(ops: Queued, returns: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Position -> (start, end) of each untimed operation that has a timed one before it, on its queue or by an event,
    and a bound behind it.
    """
    places: dict[int, tuple[int, int]] = {}
    for lane in dict.fromkeys(ops.lane):
        _place_lane(ops, [at for at, name in enumerate(ops.lane) if name == lane], returns, places)
    return places


def _place_lane(
    ops: Queued, members: Sequence[int], returns: Mapping[int, int], places: dict[int, tuple[int, int]]
) -> None:
    run: list[int] = []
    before: int | None = None
    for at in members:
        if not ops.timed[at]:
            if before is None and ops.awaited_ns[at]:
                before = int(ops.awaited_ns[at])
            if before is not None:
                run.append(at)
            continue
        if run and before is not None:
            _place_run(ops, run, before, int(ops.start_ns[at]), returns, places)
        run, before = [], int(ops.end_ns[at])
    if run and before is not None:
        _place_run(ops, run, before, None, returns, places)


def _place_run(
    ops: Queued, run: Sequence[int], before: int, behind: int | None, returns: Mapping[int, int],
    places: dict[int, tuple[int, int]],
) -> None:
    """Forwards as early as may be, then back from what is known to be later. Without any bound behind it: nowhere."""
    at, early = before, []
    for op in run:
        start = max(at, int(ops.enqueued_ns[op]), int(ops.awaited_ns[op]))
        at = start + SMALL_COPY_NS
        early.append((start, at))
    limit = behind
    for op, (start, end) in zip(reversed(run), reversed(early), strict=True):
        returned = returns.get(int(ops.correlation[op]))
        if returned is not None:
            limit = returned if limit is None else min(limit, returned)
        if limit is None:
            continue
        least = max(before, int(ops.awaited_ns[op]))
        end = max(min(end, limit), least)
        start = max(min(start, end), least)
        places[op] = (start, end)
        limit = start
