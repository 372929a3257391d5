"""Device work and the calls behind it, looked up once for all figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import BoolArray, LongArray, filled, rows_by
from ...instrumentation.sources.calls import call_of
from ...instrumentation.sources.links import calls_of, inner_calls
from ...instrumentation.sources.nesting import segments
from ...instrumentation.sources.trace import CALLS, RANGE
from .rows import CaptureRows, DeviceWork


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """`work` is all work of the devices; `call` the host row behind each of its rows, -1 where none was recorded.

    is_call, is_graph_launch, is_copy_call, is_async_call   of each host row; is_inner: a call within another one that
                                                            did the same (`links.inner_calls`), and is none of these but
                                                            a call
    """

    work: DeviceWork
    call: LongArray
    is_call: BoolArray
    is_graph_launch: BoolArray
    is_copy_call: BoolArray
    is_async_call: BoolArray
    is_inner: BoolArray


def launches_of(rows: CaptureRows) -> Launches:
    """Ties all device work to its calls."""
    work, host = rows.work, rows.host
    is_call, calls = np.isin(host.kind, CALLS), calls_of(host)
    inner = inner_calls(host, calls)
    told = [call_of(name) for name in (*rows.names, "")]
    graph, copy, asynchronous = (
        np.array([getattr(own, name) for own in told], dtype=np.bool_)[host.name] & is_call & ~inner
        for name in ("is_graph_launch", "is_copy", "is_async")
    )
    return Launches(work, calls.of(work), is_call, graph, copy, asynchronous, inner)


def range_at(rows: CaptureRows, thread: LongArray, time: LongArray) -> LongArray:
    """Host row of the innermost range that is open on a thread at a moment, -1 where none is."""
    host = rows.host
    found = filled(len(time), -1)
    ranges = np.flatnonzero(host.kind == RANGE)
    asking = rows_by(thread)
    for number, rows_ in rows_by(host.thread[ranges]).items():
        own, wanted = ranges[rows_], asking.get(number, rows_[:0])
        if len(wanted):
            begin, end, row = segments(host.start[own], host.end[own])
            place = np.searchsorted(begin, time[wanted], side="right") - 1
            inside = (place >= 0) & (time[wanted] < end[np.maximum(place, 0)]) if len(begin) else place < -1
            found[wanted[inside]] = own[row[place[inside]]]
    return found
