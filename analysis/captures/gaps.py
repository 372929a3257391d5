"""What the host did while a device had nothing to do.

The host's side is the thread that launched most of the device's work: at each moment what it was in is its innermost
call, operator or range. A gap's late part is the time in it before the call for the next operation began: until then
the device could not have worked whatever it wanted. Where the profiler itself was at work, the gap may be its doing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import BoolArray, LongArray, rows_by
from ..intervals import overlap
from .devices import idle_gaps
from .gathering import KIND_COPY
from .host_time import HostTime, ThreadTime, covered
from .launches import Launches
from .rows import CaptureRows, DeviceWork

LONGEST, LONGEST_OF_MANY = 30, 3
FEW_DEVICES = 64
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
    host = HostTime(rows)
    found = rows_by(launches.work.device)
    most = LONGEST if len(found) <= FEW_DEVICES else LONGEST_OF_MANY
    return tuple(_device(rows, launches, host, own, most) for own in found.values())


def _device(rows: CaptureRows, launches: Launches, host: HostTime, chosen: LongArray, most: int) -> GapFigures:
    work, call = launches.work.taken(chosen), launches.call[chosen]
    gaps = _gaps(rows, work, call)
    idle, length = gaps.idle, gaps.idle[:, 1] - gaps.idle[:, 0]
    thread = _main_thread(rows, call)
    during, overhead = host.of_thread(thread), host.overhead(np.unique(work.process))
    key = rows.devices[work.device[0]]
    known = gaps.known.any()
    return GapFigures(
        device=key.device, rank=key.rank, gaps=len(idle), idle_ns=int(length.sum()),
        late_ns=int(gaps.late[gaps.known].sum()) if known or not len(idle) else None,
        late_known_ns=int(length[gaps.known].sum()), overhead_ns=None if overhead is None else overlap(idle, overhead),
        thread=rows.threads[thread] if thread >= 0 else None, host=_shares(during, idle, int(length.sum())),
        longest=_longest(rows, work, gaps.most(most), during, overhead),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Gaps:
    """idle [n, 2]; the row of work that ends each gap; its late part, where `known`."""

    idle: LongArray
    following: LongArray
    late: LongArray
    known: BoolArray

    def most(self, count: int) -> _Gaps:
        """The `count` longest, the longest first."""
        kept = np.argsort(self.idle[:, 0] - self.idle[:, 1], kind="stable")[:count]
        return _Gaps(self.idle[kept], self.following[kept], self.late[kept], self.known[kept])


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


def _shares(during: ThreadTime, idle: LongArray, idle_ns: int) -> tuple[HostShare, ...]:
    found = during.within(idle)
    shares = [HostShare(kind, name, time, time / idle_ns) for (kind, name), time in found]
    rest = idle_ns - sum(time for _, time in found)
    if rest:
        shares.append(HostShare(None, None, rest, rest / idle_ns))
    return tuple(sorted(shares, key=lambda share: (-share.idle_ns, share.name or "")))


def _longest(
    rows: CaptureRows, work: DeviceWork, gaps: _Gaps, during: ThreadTime, overhead: LongArray | None
) -> tuple[Gap, ...]:
    found = []
    during_overhead = None if overhead is None else covered(overhead, *gaps.idle.T).tolist()
    for place, idle in enumerate(gaps.idle):
        row = gaps.following[place]
        name = rows.names[work.name[row]] if work.kind[row] != KIND_COPY else None
        late = int(gaps.late[place]) if gaps.known[place] else None
        kind, host = during.most_of(idle) or (None, None)
        found.append(
            Gap(int(idle[0]), int(idle[1] - idle[0]), DEVICE_KIND_NAMES[work.kind[row]], name, late, kind, host,
                None if during_overhead is None else during_overhead[place])
        )  # fmt: skip
    return tuple(found)
