"""What the host did while a device had nothing to do.

The host's side is the thread that launched most of the device's work: at each moment what it was in is its innermost
call, operator or range. A gap's late part is the time in it before the call for the next operation began: until then
the device could not have worked whatever it wanted. Where the profiler itself was at work, the gap may be its doing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import BoolArray, LongArray, grouped, members
from ...instrumentation.sources.nesting import depths, in_order, parents, segments
from ...instrumentation.sources.trace import HOST_KINDS, OVERHEAD
from ..intervals import merge, overlap
from .devices import by_device, idle_gaps
from .gathering import KIND_COPY
from .launches import Launches
from .rows import CaptureRows, DeviceWork

LONGEST = 30
DEVICE_KIND_NAMES = ("kernel", "memset", "graph", "copy")


@dataclass(frozen=True, slots=True)
class Gap:
    """One gap. `host_name` is what the launching thread was in for most of it; None: nothing was recorded.

    late_ns   part of it before the call for the next operation began; null where that call was not recorded
    """

    start_ns: int
    gap_ns: int
    next_kind: str
    next_name: str | None
    late_ns: int | None
    host_kind: str | None
    host_name: str | None
    overhead_ns: int | None


@dataclass(frozen=True, slots=True)
class HostShare:
    """Idle time of a device during which its launching thread was in one thing. `name` None: nothing recorded."""

    kind: str | None
    name: str | None
    idle_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class GapFigures:
    """Gaps of one device. late_ns adds up the late parts of the gaps whose next call is known, null where none is;
    `late_known_ns` is the length of those gaps; overhead_ns what lies under the profiler's own work, null where the
    capture has no rows of that."""

    device: str
    rank: int | None
    gaps: int
    idle_ns: int
    late_ns: int | None
    late_known_ns: int
    overhead_ns: int | None
    thread: str | None
    host: tuple[HostShare, ...]
    longest: tuple[Gap, ...]


def gap_figures(rows: CaptureRows, launches: Launches, unseen: str | None = None) -> tuple[GapFigures, ...]:
    """A row a device that had gaps or none, in the order of the devices' places; no rows where work ran that stands in
    no row (`unseen`): what looks like a gap may hold it."""
    if unseen is not None:
        return ()
    host = _HostTime(rows)
    return tuple(_device(rows, launches, host, place, own) for place, own in by_device(launches.work))


def _device(rows: CaptureRows, launches: Launches, host: _HostTime, place: int, chosen: LongArray) -> GapFigures:
    work, call = launches.work.taken(chosen), launches.call[chosen]
    gaps = _gaps(rows, work, call)
    idle, length = gaps.idle, gaps.idle[:, 1] - gaps.idle[:, 0]
    thread = _main_thread(rows, call)
    own = _overlapping(rows, host.of_thread(thread), idle)
    overhead = host.overhead(np.unique(work.process))
    key = rows.devices[place]
    known = gaps.known.any()
    return GapFigures(
        device=key.device, rank=key.rank, gaps=len(idle), idle_ns=int(length.sum()),
        late_ns=int(gaps.late[gaps.known].sum()) if known or not len(idle) else None,
        late_known_ns=int(length[gaps.known].sum()), overhead_ns=None if overhead is None else overlap(idle, overhead),
        thread=rows.threads[thread] if thread >= 0 else None, host=_shares(rows, own, idle, int(length.sum())),
        longest=_longest(rows, work, gaps, own, overhead),
    )


class _HostTime:
    """Host rows by thread, and the profiler's own work by process: looked up once for all devices."""

    def __init__(self, rows: CaptureRows) -> None:
        self._rows = rows
        working = np.flatnonzero(rows.host.kind != OVERHEAD)
        found = (working[own] for own in members(rows.host.thread[working]))
        self._threads = {int(rows.host.thread[own[0]]): own for own in found}
        self._own_work = np.flatnonzero(rows.host.kind == OVERHEAD)
        self._known: dict[tuple[int, ...], LongArray] = {}

    def of_thread(self, thread: int) -> LongArray:
        """What the thread did; the profiler's own work is not its."""
        return self._threads.get(thread, self._own_work[:0])

    def overhead(self, processes: LongArray) -> LongArray | None:
        """When the profiler was at work in these processes; None where the capture has no rows of that."""
        if not len(self._own_work):
            return None
        key = tuple(processes.tolist())
        if key not in self._known:
            chosen = self._own_work[np.isin(self._rows.host.process[self._own_work], processes)]
            self._known[key] = merge(self._rows.host.taken(chosen).intervals)
        return self._known[key]


@dataclass(frozen=True, slots=True, eq=False)
class _Gaps:
    """idle [n, 2]; the row of work that ends each gap; its late part, where `known`."""

    idle: LongArray
    following: LongArray
    late: LongArray
    known: BoolArray


def _gaps(rows: CaptureRows, work: DeviceWork, call: LongArray) -> _Gaps:
    idle = idle_gaps(work.start, work.end)
    order = np.lexsort((work.end, work.start))
    following = order[np.searchsorted(work.start[order], idle[:, 1], side="left")]
    asked_by = call[following]
    asked = rows.host.start[np.maximum(asked_by, 0)] if len(rows.host) else idle[:, 0]
    late = np.clip(asked, idle[:, 0], idle[:, 1]) - idle[:, 0]
    return _Gaps(idle, following, late, asked_by >= 0)


def _main_thread(rows: CaptureRows, call: LongArray) -> int:
    """The thread that launched most of the work; -1 where no call was recorded: then the one with most host rows."""
    found = rows.host.thread[call[call >= 0]]
    if not len(found):
        return -1
    threads, counts = np.unique(found, return_counts=True)
    return int(threads[np.argmax(counts)])


def _overlapping(rows: CaptureRows, own: LongArray, idle: LongArray) -> LongArray:
    """Those of the host rows that overlap a gap, outer ones first."""
    host = rows.host
    own = own[_covered(idle, host.start[own], host.end[own]) > 0]
    return own[in_order(host.start[own], host.end[own])]


def _covered(idle: LongArray, start: LongArray, end: LongArray) -> LongArray:
    """Idle time within each [start, end): gaps are sorted and disjoint, so running totals tell."""
    if not len(idle):
        return np.zeros(len(start), dtype=np.int64)
    total = np.concatenate(([0], np.cumsum(idle[:, 1] - idle[:, 0])))

    def until(time: LongArray) -> LongArray:
        place = np.searchsorted(idle[:, 0], time, side="right")
        over = np.maximum(idle[np.maximum(place - 1, 0), 1] - time, 0)
        return total[place] - np.where(place > 0, over, 0)

    return until(end) - until(start)


def _innermost(rows: CaptureRows, own: LongArray, idle: LongArray) -> tuple[LongArray, LongArray]:
    """(host row, idle time during which it was the innermost): its own less that of what it directly contains.

    Where ranges cross instead of nesting that would count twice; then time is cut into pieces.
    """
    start, end = rows.host.start[own], rows.host.end[own]
    inside = _covered(idle, start, end)
    parent = parents(start, end, depths(start, end))
    alone = inside.copy()
    np.subtract.at(alone, parent[parent >= 0], inside[parent >= 0])
    if (alone >= 0).all() and (end[parent[parent >= 0]] >= end[parent >= 0]).all():
        return own, alone
    begin, finish, row = segments(start, end)
    return own[row], _covered(idle, begin, finish)


def _shares(rows: CaptureRows, own: LongArray, idle: LongArray, idle_ns: int) -> tuple[HostShare, ...]:
    host, found = rows.host, []
    row, alone = _innermost(rows, own, idle)
    if len(row):
        group, head = grouped(host.kind[row], host.name[row])
        sums = np.zeros(len(head), dtype=np.int64)
        np.add.at(sums, group, alone)
        for number, place in enumerate(head.tolist()):
            if sums[number]:
                found.append((HOST_KINDS[host.kind[row[place]]], rows.names[host.name[row[place]]], int(sums[number])))
    rest = idle_ns - int(alone.sum())
    shares = [HostShare(kind, name, time, time / idle_ns) for kind, name, time in found]
    if rest:
        shares.append(HostShare(None, None, rest, rest / idle_ns))
    return tuple(sorted(shares, key=lambda share: (-share.idle_ns, share.name or "")))


def _longest(
    rows: CaptureRows, work: DeviceWork, gaps: _Gaps, own: LongArray, overhead: LongArray | None
) -> tuple[Gap, ...]:
    length = gaps.idle[:, 1] - gaps.idle[:, 0]
    found = []
    for place in np.argsort(-length, kind="stable")[:LONGEST].tolist():
        row, idle = gaps.following[place], gaps.idle[place]
        name = rows.names[work.name[row]] if work.kind[row] != KIND_COPY else None
        late = int(gaps.late[place]) if gaps.known[place] else None
        during = _during(rows, own, idle)
        found.append(
            Gap(int(idle[0]), int(length[place]), DEVICE_KIND_NAMES[work.kind[row]], name, late, *during,
                None if overhead is None else overlap(idle, overhead))
        )  # fmt: skip
    return tuple(found)


def _during(rows: CaptureRows, own: LongArray, gap: LongArray) -> tuple[str | None, str | None]:
    """(kind, name) of what the thread was in for most of the gap."""
    host = rows.host
    near = own[(host.start[own] < gap[1]) & (host.end[own] > gap[0])]
    begin, finish, row = segments(host.start[near], host.end[near])
    shared = np.minimum(finish, gap[1]) - np.maximum(begin, gap[0])
    row, shared = near[row[shared > 0]], shared[shared > 0]
    if not len(row):
        return None, None
    group, head = grouped(host.kind[row], host.name[row])
    sums = np.zeros(len(head), dtype=np.int64)
    np.add.at(sums, group, shared)
    most = int(np.argmax(sums))
    if int(sums[most]) < int(gap[1] - gap[0]) - int(sums.sum()):
        return None, None
    return HOST_KINDS[host.kind[row[head[most]]]], rows.names[host.name[row[head[most]]]]
