"""Calls in which the host waited: synchronisations and blocking copies, by thread and by the range around them.

`.item()` shows as a small copy back into pinned memory and, next on the same thread, a synchronisation of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import ABSENT, BoolArray, LongArray, grouped
from ...instrumentation.sources.trace import SYNC
from .lacks import Lacks, nameless_calls
from .launches import Launches, range_at
from .rows import CaptureRows

ITEM_BYTES = 16


@dataclass(frozen=True, slots=True)
class SyncFigures:
    """Waiting calls of one name on one thread under one range. `range` None: under no range, or `Lacks.places`.
    `item_like` counts the ones that finish a pattern of `.item()`, null where the copies before them are not known."""

    pid: int | None
    rank: int | None
    thread: str
    range: str | None
    call: str
    calls: int
    total_ns: int
    max_ns: int
    item_like: int | None


def sync_figures(rows: CaptureRows, launches: Launches, lacks: Lacks) -> tuple[SyncFigures, ...] | None:
    """The longest total first; None where nobody knows which calls waited."""
    host = rows.host
    if lacks.calls is not None:
        return None
    blocking = launches.is_copy_call & ~launches.is_async_call
    waiting = np.flatnonzero(((host.kind == SYNC) & ~launches.is_inner) | blocking)
    if not len(waiting):
        return None if nameless_calls(rows, launches) else ()
    around = range_at(rows, host.thread[waiting], host.start[waiting])
    under = np.where((around >= 0) & (lacks.places is None), host.name[np.maximum(around, 0)], -1)
    tells_items = lacks.items is None
    item = _item_like(rows, launches)[waiting]
    group, head = grouped(host.thread[waiting], under, host.name[waiting])
    duration = host.duration[waiting]
    total, count, items = (np.zeros(len(head), dtype=np.int64) for _ in range(3))
    longest = np.zeros(len(head), dtype=np.int64)
    np.add.at(total, group, duration)
    np.add.at(count, group, 1)
    np.add.at(items, group, item.astype(np.int64))
    np.maximum.at(longest, group, duration)
    found = []
    for number, row in enumerate(head.tolist()):
        key = rows.processes[host.process[waiting[row]]]
        found.append(
            SyncFigures(
                key.pid, key.rank, rows.threads[host.thread[waiting[row]]],
                rows.names[under[row]] if under[row] >= 0 else None, rows.names[host.name[waiting[row]]],
                int(count[number]), int(total[number]), int(longest[number]),
                int(items[number]) if tells_items else None,
            )
        )
    return tuple(sorted(found, key=lambda own: (-own.total_ns, own.thread, own.call)))


def _item_like(rows: CaptureRows, launches: Launches) -> BoolArray:
    """Host rows that are the synchronisation right behind a small copy back, next call of the same thread."""
    host, copies = rows.host, rows.copies
    back = np.array([name == "d2h" for name in (*rows.directions, "")], dtype=np.bool_)[copies.direction]
    small = back & (copies.size_bytes != ABSENT) & (copies.size_bytes <= ITEM_BYTES)
    call_of_copy = launches.call[len(rows.device) :]
    is_small = np.zeros(len(host), dtype=np.bool_)
    is_small[call_of_copy[small & (call_of_copy >= 0)]] = True
    order = _calls_in_order(rows, launches)
    found = np.zeros(len(host), dtype=np.bool_)
    same = host.thread[order[1:]] == host.thread[order[:-1]]
    stream = np.array(["StreamSynchronize" in name for name in (*rows.names, "")], dtype=np.bool_)[host.name]
    found[order[1:]] = same & is_small[order[:-1]] & stream[order[1:]]
    return found


def _calls_in_order(rows: CaptureRows, launches: Launches) -> LongArray:
    calls = np.flatnonzero(launches.is_call & ~launches.is_inner)
    return calls[np.lexsort((rows.host.start[calls], rows.host.thread[calls]))]
