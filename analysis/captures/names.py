"""Kernels and calls by name, and memory operations by direction: NVIDIA's summary tables, in our types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import LARGEST, LongArray, grouped
from ...instrumentation.sources.trace import HOST_KINDS
from ..stats import median
from .gathering import KIND_KERNEL
from .launches import Launches
from .rows import CaptureRows


@dataclass(frozen=True, slots=True)
class NameFigures:
    """All rows of one name. `kind` is kernel for device rows; launch, api or sync for calls."""

    name: str
    kind: str
    n: int
    total_ns: int
    min_ns: int
    max_ns: int
    p50_ns: float | None
    pid: int | None = None
    rank: int | None = None


def kernel_figures(rows: CaptureRows) -> tuple[NameFigures, ...]:
    """Kernels of all devices by name, the longest total first."""
    device = rows.device
    chosen = device.kind == KIND_KERNEL
    nobody = np.zeros(int(chosen.sum()), dtype=np.int64)
    return _by_name(rows, device.name[chosen], device.duration[chosen], nobody, None)


def call_figures(rows: CaptureRows, launches: Launches) -> tuple[NameFigures, ...]:
    """Calls of each process by name, the longest total first."""
    host, chosen = rows.host, launches.is_call
    kinds = np.full(len(rows.names) + 1, -1, dtype=np.int64)
    kinds[host.name[chosen]] = host.kind[chosen]
    return _by_name(rows, host.name[chosen], host.duration[chosen], host.process[chosen], kinds)


def _by_name(
    rows: CaptureRows, name: LongArray, duration: LongArray, process: LongArray, kinds: LongArray | None
) -> tuple[NameFigures, ...]:
    if not len(name):
        return ()
    group, head = grouped(process, name)
    order = np.argsort(group, kind="stable")
    borders = np.searchsorted(group[order], np.arange(len(head) + 1))
    least, most = np.full(len(head), LARGEST), np.full(len(head), -LARGEST)
    total = np.zeros(len(head), dtype=np.int64)
    np.add.at(total, group, duration)
    np.minimum.at(least, group, duration)
    np.maximum.at(most, group, duration)
    found = []
    for number, row in enumerate(head.tolist()):
        own = duration[order[borders[number] : borders[number + 1]]]
        key = rows.processes[process[row]] if kinds is not None else None
        middle = median(own)
        found.append(
            NameFigures(
                rows.names[name[row]], "kernel" if kinds is None else HOST_KINDS[kinds[name[row]]], len(own),
                int(total[number]), int(least[number]), int(most[number]), None if middle is None else float(middle),
                key.pid if key else None, key.rank if key else None,
            )
        )
    return tuple(sorted(found, key=lambda own: (-own.total_ns, own.name)))
