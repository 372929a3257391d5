"""Busy and idle of each device: the one definition, for both formats.

    operations  kernels, memsets, whole-graph replays and copies; never synchronisations, never annotations
    window      from the first start to the last end of an operation of the device, of whichever process
    busy        length of the union of the operations; overlapping ones, also on one stream, count once
    idle        window - busy; a gap is a stretch of it from one operation to the next, an empty one (whose length
                lies below the clock's resolution) included
    hidden      the part of the union of the copies to the device that lies under kernels (or graph replays) of the
                same device
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...instrumentation.recording.busy import Cover, covers
from ...instrumentation.sources.arrays import BoolArray, LongArray, rows_by
from .gathering import KIND_COPY, KIND_GRAPH, KIND_KERNEL, KIND_MEMSET
from .lacks import Lacks
from .rows import CaptureRows, DeviceWork, nowhere

_COMMUNICATION = re.compile(
    r"^(nccl|rccl|nvshmem)|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|\bdeep_ep::",
    re.IGNORECASE,
)
"""The libraries', and those that engines bring along: vLLM, SGLang and aiter reduce by kernels of their own."""
LONG_GAP_NS = 10_000


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """One device. Unions in ns; counts of rows. `kernels` includes communication; `graph_replays` are rows that stand
    for a whole graph whose kernels were not recorded. Where work ran that stands in no row, `unseen` says why that is
    so, and busy, idle, gaps and what lies under kernels are null. What no row can show to have been nothing, or what
    only names of kernels tell, is null too (`Lacks` has the reason). memory_alone_ns: recorded copies and memsets that
    lie under no kernel."""

    device: str
    rank: int | None
    kernels: int | None
    communication_kernels: int | None
    graph_replays: int | None
    memsets: int | None
    copies: int | None
    window_start_ns: int
    window_ns: int
    busy_ns: int | None
    idle_ns: int | None
    idle_pct: float | None
    kernel_union_ns: int | None
    compute_union_ns: int | None
    communication_union_ns: int | None
    memcpy_union_ns: int | None
    memset_union_ns: int | None
    memory_union_ns: int | None
    memory_under_kernels_ns: int | None
    memory_alone_ns: int | None
    gaps: int | None
    gap_max_ns: int | None
    gaps_10us_or_longer: int | None
    unseen: str | None


def device_figures(
    rows: CaptureRows, unseen: str | None = None, lacks: Lacks | None = None
) -> tuple[DeviceFigures, ...]:
    """A row a device that executed something, in order of rank and name. `unseen` as `unseen_work` gives it."""
    lost = nowhere(rows)
    everywhere, known = _nulls(rows, unseen, lacks), _not_told(rows, lost)
    sums = _Sums(rows)
    found = []
    for place, own in rows_by(rows.work.device).items():
        values = sums.of(place)
        of_all = sums.of_all(place, rows.work.taken(own)) if unseen is None else dict.fromkeys(_OF_ALL)
        nulls = everywhere if place in lost else everywhere | known
        key = rows.devices[place]
        found.append(
            DeviceFigures(**{"device": key.device, "rank": key.rank, "unseen": unseen, **values, **of_all, **nulls})
        )
    return tuple(found)


_KERNELS = "kernels communication_kernels kernel_union_ns compute_union_ns communication_union_ns"
_REPLAYS = "graph_replays kernel_union_ns compute_union_ns"
_COPIES, _MEMSETS = "copies memcpy_union_ns memory_union_ns", "memsets memset_union_ns memory_union_ns"


def _nulls(rows: CaptureRows, unseen: str | None, lacks: Lacks | None) -> dict[str, Any]:
    """Fields of every device that the rows do not tell."""
    kinds = rows.device.kind
    unsaid = [
        (_KERNELS, unseen and not np.isin(kinds, (KIND_KERNEL, KIND_GRAPH)).any()),
        (_KERNELS, lacks and lacks.kernels),
        (_REPLAYS, lacks and lacks.replays), (_COPIES, lacks and lacks.copies),
        (_MEMSETS, lacks and lacks.memsets),
        ("communication_kernels compute_union_ns communication_union_ns", lacks and lacks.kernel_names),
    ]  # fmt: skip
    return {name: None for names, why in unsaid if why for name in names.split()}


def _not_told(rows: CaptureRows, lost: LongArray) -> dict[str, Any]:
    """Fields of the devices that some rows name, where others of the kind name none."""
    kinds = set(rows.work.kind[np.isin(rows.work.device, lost)].tolist())
    fields = {KIND_KERNEL: _KERNELS, KIND_GRAPH: _REPLAYS, KIND_COPY: _COPIES, KIND_MEMSET: _MEMSETS}
    return {name: None for kind in kinds for name in fields[kind].split()}


def idle_gaps(start: LongArray, end: LongArray) -> LongArray:
    """[n, 2]: when nothing ran between the first operation's start and the last one's end."""
    order = np.lexsort((end, start))
    reach = np.maximum.accumulate(end[order])
    found = np.stack((reach[:-1], start[order][1:]), axis=1)
    return np.asarray(found[found[:, 1] > found[:, 0]], dtype=np.int64)


class _Sums:
    """Counts and unions of every device, made in one pass over all rows."""

    def __init__(self, rows: CaptureRows) -> None:
        work = rows.work
        communicates = np.array([_COMMUNICATION.search(name) is not None for name in (*rows.names, "")], dtype=np.bool_)
        is_kernel, is_graph = work.kind == KIND_KERNEL, work.kind == KIND_GRAPH
        talking = is_kernel & communicates[work.name]
        copy, memset = work.kind == KIND_COPY, work.kind == KIND_MEMSET
        ran = is_kernel | is_graph
        self._work, self._count = work, len(rows.devices)
        everything = self._cover(ran | copy | memset)
        self._busy, self._ran, self._memory = everything.busy_ns, self._union(ran), self._union(copy | memset)
        self._columns = {
            "kernels": self._rows(is_kernel), "communication_kernels": self._rows(talking),
            "graph_replays": self._rows(is_graph), "memsets": self._rows(memset), "copies": self._rows(copy),
            "window_start_ns": everything.first_ns, "window_ns": everything.window_ns, "kernel_union_ns": self._ran,
            "compute_union_ns": self._union(ran & ~talking), "communication_union_ns": self._union(talking),
            "memcpy_union_ns": self._union(copy), "memset_union_ns": self._union(memset),
            "memory_union_ns": self._memory,
        }  # fmt: skip

    def _cover(self, chosen: BoolArray) -> Cover:
        return covers(self._work.device[chosen], self._work.start[chosen], self._work.end[chosen], self._count)

    def _union(self, chosen: BoolArray) -> LongArray:
        return self._cover(chosen).busy_ns

    def _rows(self, chosen: BoolArray) -> LongArray:
        return np.bincount(self._work.device[chosen], minlength=self._count)

    def of(self, place: int) -> dict[str, Any]:
        """Fields of one device that hold whatever else ran."""
        return {name: int(values[place]) for name, values in self._columns.items()}

    def of_all(self, place: int, work: DeviceWork) -> dict[str, Any]:
        """The fields that only all the work of a device tells. What lies in both of two unions is their sum less the
        union of both, which is busy."""
        window, busy = int(self._columns["window_ns"][place]), int(self._busy[place])
        memory = int(self._memory[place])
        under = memory + int(self._ran[place]) - busy
        idle = idle_gaps(work.start, work.end)
        lengths = idle[:, 1] - idle[:, 0]
        return {
            "busy_ns": busy, "idle_ns": window - busy,
            "idle_pct": round(100 * (window - busy) / window, 3) if window else None,
            "memory_under_kernels_ns": under, "memory_alone_ns": memory - under, "gaps": len(idle),
            "gap_max_ns": int(lengths.max()) if len(idle) else 0,
            "gaps_10us_or_longer": int((lengths >= LONG_GAP_NS).sum()),
        }


_OF_ALL = (
    "busy_ns", "idle_ns", "idle_pct", "memory_under_kernels_ns", "memory_alone_ns", "gaps", "gap_max_ns",
    "gaps_10us_or_longer",
)  # fmt: skip
