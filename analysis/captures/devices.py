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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...instrumentation.sources.arrays import BoolArray, LongArray, members
from ..intervals import length, merge, overlap
from .gathering import KIND_COPY, KIND_GRAPH, KIND_KERNEL, KIND_MEMSET
from .lacks import Lacks
from .rows import CaptureRows, DeviceKey, DeviceWork, nowhere

_COMMUNICATION = re.compile(r"^(nccl|rccl)|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE)
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
    communicates = np.array([_COMMUNICATION.search(name) is not None for name in (*rows.names, "")], dtype=np.bool_)
    lost = nowhere(rows)
    everywhere, known = _nulls(rows, unseen, lacks), _not_told(rows, lost)
    return tuple(
        replace(
            _figures(rows.devices[place], rows.work.taken(own), communicates, unseen),
            **(everywhere if place in lost else everywhere | known),
        )
        for place, own in by_device(rows.work)
    )


def by_device(work: DeviceWork) -> list[tuple[int, LongArray]]:
    """(place, rows in their order) of all devices that have rows: one pass, however many there are."""
    return [(int(work.device[own[0]]), own) for own in members(work.device)]


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


def _figures(key: DeviceKey, work: DeviceWork, communicates: BoolArray, unseen: str | None) -> DeviceFigures:
    kernel = (work.kind == KIND_KERNEL) | (work.kind == KIND_GRAPH)
    talking = (work.kind == KIND_KERNEL) & communicates[work.name]
    copy, memset = work.kind == KIND_COPY, work.kind == KIND_MEMSET
    spans = work.intervals
    kernels, memory = merge(spans[kernel]), merge(spans[copy | memset])
    start, end = int(work.start.min()), int(work.end.max())
    of_all = _unions(work, memory, kernels) if unseen is None else dict.fromkeys(_OF_ALL)
    return DeviceFigures(
        device=key.device, rank=key.rank, kernels=int((work.kind == KIND_KERNEL).sum()),
        communication_kernels=int(talking.sum()), graph_replays=int((work.kind == KIND_GRAPH).sum()),
        memsets=int(memset.sum()), copies=int(copy.sum()), window_start_ns=start, window_ns=end - start,
        kernel_union_ns=length(kernels), compute_union_ns=length(spans[kernel & ~talking]),
        communication_union_ns=length(spans[talking]), memcpy_union_ns=length(spans[copy]),
        memset_union_ns=length(spans[memset]), memory_union_ns=length(memory), unseen=unseen, **of_all,
    )


_OF_ALL = (
    "busy_ns", "idle_ns", "idle_pct", "memory_under_kernels_ns", "memory_alone_ns", "gaps", "gap_max_ns",
    "gaps_10us_or_longer",
)  # fmt: skip


def _unions(work: DeviceWork, memory: LongArray, kernels: LongArray) -> dict[str, Any]:
    """The figures that only all the work of a device tells; `memory` and `kernels` are merged."""
    under = overlap(memory, kernels)
    idle = idle_gaps(work.start, work.end)
    lengths = idle[:, 1] - idle[:, 0]
    window, busy_ns = int(work.end.max() - work.start.min()), length(work.intervals)
    return {
        "busy_ns": busy_ns, "idle_ns": window - busy_ns,
        "idle_pct": round(100 * (window - busy_ns) / window, 3) if window else None,
        "memory_under_kernels_ns": under, "memory_alone_ns": length(memory) - under, "gaps": len(idle),
        "gap_max_ns": int(lengths.max()) if len(idle) else 0,
        "gaps_10us_or_longer": int((lengths >= LONG_GAP_NS).sum()),
    }
