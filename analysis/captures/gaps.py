"""What the host did while a device had nothing to do.

The host's side is the thread that launched most of the device's work: at each moment what it was in is its innermost
call, operator or range. A gap's late part is the time in it before the call for the next operation began: until then
the device could not have worked whatever it wanted. Where the profiler itself was at work, the gap may be its doing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import BoolArray, LongArray, grouped
from ...instrumentation.sources.nesting import segments
from ...instrumentation.sources.trace import HOST_KINDS, OVERHEAD
from ..intervals import merge, overlap
from .devices import idle_gaps
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
    overhead_ns: int


@dataclass(frozen=True, slots=True)
class HostShare:
    """Idle time of a device during which its launching thread was in one thing. `name` None: nothing recorded."""

    kind: str | None
    name: str | None
    idle_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class GapFigures:
    """Gaps of one device. late_ns adds up the late parts of the gaps whose next call is known; `late_known_ns` is the
    length of those gaps; overhead_ns what lies under the profiler's own work."""

    device: str
    rank: int | None
    gaps: int
    idle_ns: int
    late_ns: int
    late_known_ns: int
    overhead_ns: int
    thread: str | None
    host: tuple[HostShare, ...]
    longest: tuple[Gap, ...]


def gap_figures(rows: CaptureRows, launches: Launches) -> tuple[GapFigures, ...]:
    """A row a device that had gaps or none, in the order of the devices' places."""
    return tuple(_device(rows, launches, place) for place in np.unique(launches.work.device).tolist())


def _device(rows: CaptureRows, launches: Launches, place: int) -> GapFigures:
    chosen = np.flatnonzero(launches.work.device == place)
    work, call = launches.work.taken(chosen), launches.call[chosen]
    gaps = _gaps(rows, work, call)
    idle, length = gaps.idle, gaps.idle[:, 1] - gaps.idle[:, 0]
    thread = _main_thread(rows, call)
    pieces = _pieces(rows, thread)
    overhead = _overhead(rows, np.unique(work.process))
    key, covered = rows.devices[place], _covered(idle, pieces)
    return GapFigures(
        device=key.device, rank=key.rank, gaps=len(idle), idle_ns=int(length.sum()),
        late_ns=int(gaps.late[gaps.known].sum()),
        late_known_ns=int(length[gaps.known].sum()), overhead_ns=overlap(idle, overhead),
        thread=rows.threads[thread] if thread >= 0 else None, host=_shares(rows, pieces, covered, int(length.sum())),
        longest=_longest(rows, work, gaps, pieces, overhead),
    )


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


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """Disjoint stretches of the thread's time with the host row that is innermost there, sorted."""

    start: LongArray
    end: LongArray
    row: LongArray


def _pieces(rows: CaptureRows, thread: int) -> _Pieces:
    own = np.flatnonzero((rows.host.thread == thread) & (rows.host.kind != OVERHEAD))
    start, end, row = segments(rows.host.start[own], rows.host.end[own])
    return _Pieces(start, end, own[row])


def _overhead(rows: CaptureRows, processes: LongArray) -> LongArray:
    host = rows.host
    return merge(host.intervals[(host.kind == OVERHEAD) & np.isin(host.process, processes)])


def _covered(idle: LongArray, pieces: _Pieces) -> LongArray:
    """Idle time within each piece: both are sorted and disjoint, so running totals tell."""
    total = np.concatenate(([0], np.cumsum(idle[:, 1] - idle[:, 0])))

    def until(time: LongArray) -> LongArray:
        place = np.searchsorted(idle[:, 0], time, side="right")
        before = np.maximum(place - 1, 0)
        return total[place] - np.where(place > 0, np.maximum(idle[before, 1] - time, 0), 0)

    if not len(idle):
        return np.zeros(len(pieces.row), dtype=np.int64)
    return until(pieces.end) - until(pieces.start)


def _shares(rows: CaptureRows, pieces: _Pieces, covered: LongArray, idle_ns: int) -> tuple[HostShare, ...]:
    host, found = rows.host, []
    if len(pieces.row):
        group, head = grouped(host.kind[pieces.row], host.name[pieces.row])
        sums = np.zeros(len(head), dtype=np.int64)
        np.add.at(sums, group, covered)
        for number, place in enumerate(head.tolist()):
            row = pieces.row[place]
            if sums[number]:
                found.append((HOST_KINDS[host.kind[row]], rows.names[host.name[row]], int(sums[number])))
    rest = idle_ns - int(covered.sum())
    shares = [HostShare(kind, name, time, time / idle_ns) for kind, name, time in found]
    if rest:
        shares.append(HostShare(None, None, rest, rest / idle_ns))
    return tuple(sorted(shares, key=lambda own: (-own.idle_ns, own.name or "")))


def _longest(
    rows: CaptureRows, work: DeviceWork, gaps: _Gaps, pieces: _Pieces, overhead: LongArray
) -> tuple[Gap, ...]:
    length = gaps.idle[:, 1] - gaps.idle[:, 0]
    found = []
    for place in np.argsort(-length, kind="stable")[:LONGEST].tolist():
        row, idle = gaps.following[place], gaps.idle[place]
        name = rows.names[work.name[row]] if work.kind[row] != KIND_COPY else None
        late = int(gaps.late[place]) if gaps.known[place] else None
        during = _during(rows, pieces, idle)
        found.append(
            Gap(int(idle[0]), int(length[place]), DEVICE_KIND_NAMES[work.kind[row]], name, late, *during,
                overlap(idle, overhead))
        )  # fmt: skip
    return tuple(found)


def _during(rows: CaptureRows, pieces: _Pieces, gap: LongArray) -> tuple[str | None, str | None]:
    """(kind, name) of what the thread was in for most of the gap."""
    first = int(np.searchsorted(pieces.end, gap[0], side="right"))
    stop = int(np.searchsorted(pieces.start, gap[1], side="left"))
    if stop <= first:
        return None, None
    shared = np.minimum(pieces.end[first:stop], gap[1]) - np.maximum(pieces.start[first:stop], gap[0])
    row = pieces.row[first:stop]
    names, place = np.unique(rows.host.name[row], return_inverse=True)
    sums = np.zeros(len(names), dtype=np.int64)
    np.add.at(sums, place, shared)
    if int(sums.max()) * 2 < int(gap[1] - gap[0]) - int(sums.sum()):
        return None, None
    name = names[np.argmax(sums)]
    kind = rows.host.kind[row[rows.host.name[row] == name][0]]
    return HOST_KINDS[kind], rows.names[name]

