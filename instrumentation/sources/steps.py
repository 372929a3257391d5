"""Which step a call belongs to.

A step is a range that an engine marks (`markers.py`), or, where nothing marks one, a turn of the cycle in which a
thread's outermost ranges repeat. Its window reaches from its start to the start of the next one on the thread where
the marker covers only a part of the step, else to its end. Device work belongs to the step of its call, never to the
step that runs at the same time: with two steps in flight that is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .arrays import BoolArray, LongArray, blocks, empty, filled, rows_by
from .cycles import cycle_starts
from .markers import FAMILIES, Marker, marker_of
from .nesting import depths, in_order
from .phase_maps import PhaseMap
from .trace import RANGE, HostRows, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps sorted by process and start. `number` counts from 0 within a process.

    window_end   the calls from `start` until here are the step's
    markers      what the name of each told; None for steps that were inferred
    family       who marked them, or "inferred", or None without steps
    """

    process: LongArray = field(default_factory=empty)
    thread: LongArray = field(default_factory=empty)
    number: LongArray = field(default_factory=empty)
    start: LongArray = field(default_factory=empty)
    end: LongArray = field(default_factory=empty)
    window_end: LongArray = field(default_factory=empty)
    complete: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    markers: tuple[Marker | None, ...] = ()
    family: str | None = None

    def __len__(self) -> int:
        return len(self.start)

    def at(self, process: LongArray, thread: LongArray, time: LongArray) -> LongArray:
        """Row of the step whose window a moment of a thread lies in, -1 for none.

        A thread that marks no steps itself (a backward pass, a copier) works for the steps of its process.
        """
        found = filled(len(time), -1)
        wanted = rows_by(process)
        for first, stop in blocks(self.process):
            own = wanted.get(int(self.process[first]), empty())
            rows = np.arange(first, stop, dtype=np.int64)
            marking = rows_by(self.thread[first:stop])
            for mark, marked in marking.items():
                chosen = own[thread[own] == mark]
                found[chosen] = self._within(rows[marked], time[chosen])
            others = own[~np.isin(thread[own], list(marking))]
            found[others] = self._within(rows, time[others])
        return found

    def _within(self, rows: LongArray, time: LongArray) -> LongArray:
        place = np.searchsorted(self.start[rows], time, side="right") - 1
        candidate = rows[np.maximum(place, 0)]
        return np.where((place >= 0) & (time < self.window_end[candidate]), candidate, -1)


def find_steps(trace: Trace, maps: Sequence[PhaseMap]) -> Steps:
    """The steps of all processes."""
    is_range = np.flatnonzero(trace.host.kind == RANGE).astype(np.int64)
    found = _marked(trace, is_range, maps)
    if found is None:
        return _inferred(trace, is_range)
    rows, markers, family = found
    return _steps(trace, rows, trace.host.end[rows], markers, family)


def _marked(
    trace: Trace, is_range: LongArray, maps: Sequence[PhaseMap]
) -> tuple[LongArray, list[Marker], str] | None:
    host = trace.host
    told: dict[tuple[int, int], Marker | None] = {}
    families: dict[str, tuple[list[int], list[Marker]]] = {}
    pairs = zip(host.name[is_range].tolist(), host.domain[is_range].tolist(), strict=True)
    for row, pair in zip(is_range.tolist(), pairs, strict=True):
        if pair not in told:
            told[pair] = _marker(trace, pair, maps)
        marker = told[pair]
        if marker is not None:
            rows, markers = families.setdefault(marker.family, ([], []))
            rows.append(row)
            markers.append(marker)
    for family in FAMILIES:
        if family in families:
            rows, markers = families[family]
            return np.array(rows, dtype=np.int64), markers, family
    return None


def _marker(trace: Trace, pair: tuple[int, int], maps: Sequence[PhaseMap]) -> Marker | None:
    name, domain = trace.names[pair[0]], trace.names[pair[1]] if pair[1] >= 0 else None
    if any(phase_map.is_step(name, domain) for phase_map in maps):
        return Marker("mapped")
    return marker_of(name, domain)


def _steps(
    trace: Trace, rows: LongArray, end: LongArray, markers: Sequence[Marker | None], family: str,
    complete: BoolArray | None = None,
) -> Steps:  # fmt: skip
    """Sorted, outermost only, numbered, with windows."""
    part = replace(trace.host.taken(rows), end=end)
    order = np.lexsort((-part.end, part.start, part.thread, part.process))
    order = order[_outermost(part.taken(order))]
    part = part.taken(order)
    window_end = _windows(trace, part, [markers[row] for row in order.tolist()])
    final = np.lexsort((part.start, part.process))
    order, part, window_end = order[final], part.taken(final), window_end[final]
    number = np.arange(len(part), dtype=np.int64) - np.searchsorted(part.process, part.process, side="left")
    whole = np.ones(len(rows), dtype=np.bool_) if complete is None else complete
    return Steps(
        part.process, part.thread, number, part.start, part.end, window_end, whole[order],
        tuple(markers[row] for row in order.tolist()), family,
    )


def _outermost(part: HostRows) -> BoolArray:
    """Rows sorted by process, thread, start that lie in no row before them."""
    kept = np.ones(len(part), dtype=np.bool_)
    for first, stop in _threads(part):
        reach = np.maximum.accumulate(part.end[first:stop])
        kept[first + 1 : stop] = part.end[first + 1 : stop] > reach[:-1]
    return kept


def _threads(part: HostRows) -> list[tuple[int, int]]:
    """(first, stop) of the rows of each thread; rows are sorted by process and thread."""
    return [
        (first + begin, first + finish)
        for first, stop in blocks(part.process)
        for begin, finish in blocks(part.thread[first:stop])
    ]


def _windows(trace: Trace, part: HostRows, markers: Sequence[Marker | None]) -> LongArray:
    """Where each step's window ends; a last step whose marker does not cover it ends with the range around it."""
    found = part.end.copy()
    covers = np.array([marker is None or marker.covers for marker in markers], dtype=np.bool_)
    for first, stop in _threads(part):
        following, own = part.start[first + 1 : stop], found[first : stop - 1]
        found[first : stop - 1] = np.where(covers[first : stop - 1], np.minimum(own, following), following)
        if not covers[stop - 1]:
            found[stop - 1] = _around(trace, part, stop - 1)
    return found


def _around(trace: Trace, part: HostRows, row: int) -> int:
    """End of the thread's outermost range around the row; the row's own end where there is none."""
    host = trace.host
    own = (host.kind == RANGE) & (host.process == part.process[row]) & (host.thread == part.thread[row])
    around = own & (host.start <= part.start[row]) & (host.end >= part.end[row])
    return int(host.end[around].max()) if around.any() else int(part.end[row])


def _inferred(trace: Trace, is_range: LongArray) -> Steps:
    """Turns of the cycle of each process's busiest thread of ranges."""
    host = trace.host.taken(is_range)
    rows, ends, complete = [], [], []
    for process in np.unique(host.process).tolist():
        own = np.flatnonzero(host.process == process)
        names, counts = np.unique(host.thread[own], return_counts=True)
        own = own[host.thread[own] == names[np.argmax(counts)]]
        own = own[in_order(host.start[own], host.end[own])]
        own = own[depths(host.start[own], host.end[own]) == 0]
        for first, last, whole in cycle_starts(host.name[own], host.start[own], host.end[own]):
            rows.append(int(is_range[own[first]]))
            ends.append(int(host.end[own[last]]))
            complete.append(whole)
    if not rows:
        return Steps()
    markers: list[Marker | None] = [None] * len(rows)
    found = np.array(rows, dtype=np.int64)
    return _steps(
        trace, found, np.array(ends, dtype=np.int64), markers, "inferred", np.array(complete, dtype=np.bool_)
    )
