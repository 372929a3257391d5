"""Ranges and the device work that was launched inside them, by name. Inclusive: a range holds what its children do.

    projected      of one use of a range: from the first start to the last end of the work that it launched
    as nsys stats  the same without rows that stand for whole graphs, and a graph launch counted as one operation:
                   NVIDIA's nvtx_gpu_proj_sum
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...instrumentation.sources.arrays import LARGEST, BoolArray, LongArray, blocks, grouped, rows_by
from ...instrumentation.sources.trace import OP, RANGE
from ..intervals import merge
from .gathering import KIND_GRAPH
from .host_time import covered
from .lacks import Lacks
from .launches import Launches
from .rows import CaptureRows

NO_KERNEL = "no kernel launched inside the range (capture only)"
NONE_HERE = "nothing was launched on this device inside the range"
_OF_WORK = ("gpu_ops", "projected_uses", "nsys_uses", "nsys_ops", "nsys_range_ns")


@dataclass(frozen=True, slots=True)
class RangeFigures:
    """All uses of one range name in one process. GPU figures are null, with `gpu_reason`, where nothing was launched.

    kind        range (NVTX, record_function) or op (an operator of the framework, inner ones too)
    gpu_ops     work launched inside, children included; like all counts of work null without calls or device work, and
                where the calls tell no thread, all of the kernels (or copies) no call, or work left no row
    nsys_ops    null, too, where calls have no names: which launched a graph is not known then
    gpu_sum_ns  durations of the launched work, added up; overlapping work counts twice
    in_steps_ns the part of total_ns inside the process's steps, steps_ns their union; both null without steps
    """

    pid: int | None
    rank: int | None
    kind: str
    domain: str | None
    name: str
    uses: int
    total_ns: int
    min_ns: int
    max_ns: int
    in_steps_ns: int | None
    steps_ns: int | None
    gpu_ops: int | None
    gpu_sum_ns: int | None
    projected_uses: int | None
    projected_ns: int | None
    nsys_uses: int | None
    nsys_ops: int | None
    nsys_projected_ns: int | None
    nsys_range_ns: int | None
    gpu_reason: str | None


@dataclass(frozen=True, slots=True, eq=False)
class _PerCall:
    """What each call launched; `calls` are host rows sorted by thread and start."""

    calls: LongArray
    ops: LongArray
    total: LongArray
    first: LongArray
    last: LongArray

    def within(self, low: LongArray, high: LongArray) -> tuple[LongArray, LongArray, LongArray, LongArray]:
        """(ops, sum, first start, last end) of the calls [low, high) of each range; no ops: the times mean nothing."""
        ops, total = np.concatenate(([0], np.cumsum(self.ops))), np.concatenate(([0], np.cumsum(self.total)))
        return (
            ops[high] - ops[low], total[high] - total[low],
            _reduced(np.minimum, self.first, low, high, LARGEST), _reduced(np.maximum, self.last, low, high, -LARGEST),
        )


def range_figures(
    rows: CaptureRows, launches: Launches, lacks: Lacks, lost: str | None = None
) -> tuple[RangeFigures, ...]:
    """The longest host total first. `lost` as `lost_work` gives it."""
    host = rows.host
    uses = np.flatnonzero((host.kind == RANGE) | (host.kind == OP))
    if not len(uses):
        return ()
    everything = _per_call(rows, launches, np.ones(len(launches.work), dtype=np.bool_))
    as_nsys = _as_nsys(rows, launches)
    low, high = _windows(rows, everything.calls, uses)
    whole, nsys = everything.within(low, high), as_nsys.within(low, high)
    group, head = grouped(host.process[uses], host.domain[uses], host.kind[uses], host.name[uses])
    sums = _Sums(group, len(head))
    duration = host.duration[uses]
    launched, projected = whole[0] > 0, nsys[0] > 0
    columns = {
        "uses": sums.of(np.ones_like(duration)), "total_ns": sums.of(duration), "gpu_ops": sums.of(whole[0]),
        "gpu_sum_ns": sums.of(whole[1]), "projected_uses": sums.of(launched.astype(np.int64)),
        "projected_ns": sums.of(np.where(launched, whole[3] - whole[2], 0)),
        "nsys_uses": sums.of(projected.astype(np.int64)), "nsys_ops": sums.of(nsys[0]),
        "nsys_projected_ns": sums.of(np.where(projected, nsys[3] - nsys[2], 0)),
        "nsys_range_ns": sums.of(np.where(projected, duration, 0)),
        "min_ns": sums.least(duration), "max_ns": sums.most(duration),
    } | _in_steps(rows, uses, sums, head)
    why = _why(rows, lacks, lost)
    found = [
        _figures(rows, int(uses[row]), {k: int(v[n]) for k, v in columns.items()}, why) for n, row in enumerate(head)
    ]
    if lacks.calls is not None:
        found = [replace(own, nsys_ops=None) for own in found]
    return tuple(sorted(found, key=lambda own: (-own.total_ns, own.name)))


def _figures(rows: CaptureRows, row: int, values: dict[str, int], why: str) -> RangeFigures:
    host, nothing = rows.host, values["gpu_ops"] == 0 or why != NO_KERNEL
    key = rows.processes[host.process[row]]
    optional = dict.fromkeys(("in_steps_ns", "steps_ns"), values["steps_ns"] == 0)
    optional |= dict.fromkeys(("gpu_sum_ns", "projected_ns"), nothing)
    optional["nsys_projected_ns"] = nothing or not values["nsys_uses"]
    optional |= dict.fromkeys(_OF_WORK, why != NO_KERNEL)
    kept = {name: None if optional.get(name) else value for name, value in values.items()}
    return RangeFigures(
        pid=key.pid, rank=key.rank, kind="range" if host.kind[row] == RANGE else "op",
        domain=rows.domains[host.domain[row]] if host.domain[row] >= 0 else None, name=rows.names[host.name[row]],
        gpu_reason=why if nothing else None, **kept,  # type: ignore[arg-type]
    )


def _in_steps(rows: CaptureRows, uses: LongArray, sums: _Sums, head: LongArray) -> dict[str, LongArray]:
    """By name: the uses' time inside the steps of their process, and the time of these steps; 0 where it has none."""
    (start, has_start), (end, has_end) = rows.steps.ints("start_ns"), rows.steps.ints("end_ns")
    process, known = rows.host.process[uses], has_start & has_end
    inside, whole = np.zeros(len(uses), dtype=np.int64), np.zeros(len(uses), dtype=np.int64)
    for own in np.unique(process).tolist():
        steps = merge(np.stack((start, end), axis=1)[known & (rows.step_process == own)])
        chosen = process == own
        inside[chosen] = covered(steps, rows.host.start[uses[chosen]], rows.host.end[uses[chosen]])
        whole[chosen] = (steps[:, 1] - steps[:, 0]).sum()
    return {"in_steps_ns": sums.of(inside), "steps_ns": whole[head]}


def _why(rows: CaptureRows, lacks: Lacks, lost: str | None) -> str:
    """Why a range has no work: of all ranges alike, unless it is NO_KERNEL."""
    if not len(rows.work):
        return "the capture has no work of a device"
    if "calls" in rows.absent:
        return "the capture has no calls"
    return lost or lacks.work_calls or lacks.places or NO_KERNEL


def _per_call(rows: CaptureRows, launches: Launches, counted: BoolArray) -> _PerCall:
    """Sums over the counted work of each call."""
    host, work = rows.host, launches.work
    calls = np.flatnonzero(launches.is_call)
    calls = calls[np.lexsort((host.start[calls], host.thread[calls]))]
    place = np.full(len(host) + 1, -1, dtype=np.int64)
    place[calls] = np.arange(len(calls))
    chosen = np.flatnonzero((launches.call >= 0) & counted)
    target = place[launches.call[chosen]]
    ops, total = np.zeros(len(calls), dtype=np.int64), np.zeros(len(calls), dtype=np.int64)
    first, last = np.full(len(calls), LARGEST), np.full(len(calls), -LARGEST)
    np.add.at(ops, target, 1)
    np.add.at(total, target, work.duration[chosen])
    np.minimum.at(first, target, work.start[chosen])
    np.maximum.at(last, target, work.end[chosen])
    return _PerCall(calls, ops, total, first, last)


def _as_nsys(rows: CaptureRows, launches: Launches) -> _PerCall:
    found = _per_call(rows, launches, launches.work.kind != KIND_GRAPH)
    graph = launches.is_graph_launch[found.calls]
    return replace(found, ops=np.where(graph, np.minimum(found.ops, 1), found.ops))


def _windows(rows: CaptureRows, calls: LongArray, uses: LongArray) -> tuple[LongArray, LongArray]:
    """[low, high) of the calls, in their order, that began inside each range on its thread."""
    host = rows.host
    low, high = np.zeros(len(uses), dtype=np.int64), np.zeros(len(uses), dtype=np.int64)
    by_thread = rows_by(host.thread[uses])
    for first, stop in blocks(host.thread[calls]):
        chosen = by_thread.get(int(host.thread[calls[first]]), uses[:0])
        start = host.start[calls[first:stop]]
        low[chosen] = first + np.searchsorted(start, host.start[uses[chosen]], side="left")
        high[chosen] = first + np.searchsorted(start, host.end[uses[chosen]], side="left")
    return low, np.maximum(low, high)


def _reduced(reduce: np.ufunc, values: LongArray, low: LongArray, high: LongArray, nothing: int) -> LongArray:
    """The reduction of values[low:high] of each pair; `nothing` for an empty one."""
    padded = np.append(values, nothing)
    pairs = np.stack((low, np.maximum(high, low)), axis=1).ravel()
    found = reduce.reduceat(padded, pairs)[::2] if len(pairs) else pairs
    return np.where(high > low, found, nothing)


def of_one_device(found: Sequence[RangeFigures]) -> tuple[RangeFigures, ...]:
    """The figures of a device's part of a capture: what a range without work in it launched may run on another one."""
    return tuple(replace(own, gpu_reason=NONE_HERE) if own.gpu_reason == NO_KERNEL else own for own in found)


class _Sums:
    """Sums, minima and maxima over groups."""

    def __init__(self, group: LongArray, count: int) -> None:
        self._group, self._count = group, count

    def of(self, values: LongArray) -> LongArray:
        found = np.zeros(self._count, dtype=np.int64)
        np.add.at(found, self._group, values)
        return found

    def least(self, values: LongArray) -> LongArray:
        found = np.full(self._count, LARGEST)
        np.minimum.at(found, self._group, values)
        return found

    def most(self, values: LongArray) -> LongArray:
        return -self.least(-values)
