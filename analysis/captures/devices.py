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

from ...instrumentation.sources.arrays import BoolArray, LongArray
from ..intervals import length, merge, overlap
from .gathering import KIND_COPY, KIND_GRAPH, KIND_KERNEL, KIND_MEMSET
from .rows import CaptureRows, DeviceKey, DeviceWork

_COMMUNICATION = re.compile(r"^(nccl|rccl)|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE)
LONG_GAP_NS = 10_000


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """One device. Unions in ns; counts of rows. `kernels` includes communication; `graph_replays` are rows that stand
    for a whole graph whose kernels were not recorded. Where work ran that stands in no row, `unseen` says why that is
    so, and busy, idle, gaps and what lies under kernels are null."""

    device: str
    rank: int | None
    kernels: int
    communication_kernels: int
    graph_replays: int
    memsets: int
    copies: int
    window_start_ns: int
    window_ns: int
    busy_ns: int | None
    idle_ns: int | None
    idle_pct: float | None
    kernel_union_ns: int
    compute_union_ns: int
    communication_union_ns: int
    memcpy_union_ns: int
    memset_union_ns: int
    memory_union_ns: int
    memory_under_kernels_ns: int | None
    gaps: int | None
    gap_max_ns: int | None
    gaps_10us_or_longer: int | None
    unseen: str | None


def device_figures(rows: CaptureRows, unseen: str | None = None) -> tuple[DeviceFigures, ...]:
    """A row a device that executed something, in order of rank and name. `unseen` as `unseen_work` gives it."""
    work = rows.work
    communicates = np.array([_COMMUNICATION.search(name) is not None for name in (*rows.names, "")], dtype=np.bool_)
    found = [
        _figures(key, work.taken(work.device == place), communicates, unseen)
        for place, key in enumerate(rows.devices)
        if (work.device == place).any()
    ]
    return tuple(found)


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
    of_all = _unions(work, overlap(memory, kernels)) if unseen is None else dict.fromkeys(_OF_ALL)
    return DeviceFigures(
        device=key.device, rank=key.rank, kernels=int((work.kind == KIND_KERNEL).sum()),
        communication_kernels=int(talking.sum()), graph_replays=int((work.kind == KIND_GRAPH).sum()),
        memsets=int(memset.sum()), copies=int(copy.sum()), window_start_ns=start, window_ns=end - start,
        kernel_union_ns=length(kernels), compute_union_ns=length(spans[kernel & ~talking]),
        communication_union_ns=length(spans[talking]), memcpy_union_ns=length(spans[copy]),
        memset_union_ns=length(spans[memset]), memory_union_ns=length(memory), unseen=unseen, **of_all,
    )


_OF_ALL = (
    "busy_ns", "idle_ns", "idle_pct", "memory_under_kernels_ns", "gaps", "gap_max_ns", "gaps_10us_or_longer",
)  # fmt: skip


def _unions(work: DeviceWork, memory_under_kernels_ns: int) -> dict[str, Any]:
    """The figures that only all the work of a device tells."""
    idle = idle_gaps(work.start, work.end)
    lengths = idle[:, 1] - idle[:, 0]
    window, busy_ns = int(work.end.max() - work.start.min()), length(work.intervals)
    return {
        "busy_ns": busy_ns, "idle_ns": window - busy_ns,
        "idle_pct": round(100 * (window - busy_ns) / window, 3) if window else None,
        "memory_under_kernels_ns": memory_under_kernels_ns, "gaps": len(idle),
        "gap_max_ns": int(lengths.max()) if len(idle) else 0,
        "gaps_10us_or_longer": int((lengths >= LONG_GAP_NS).sum()),
    }
