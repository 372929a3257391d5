"""What each process of a capture brought: a worker that nobody traced, or that was killed, has calls and no work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import MeasurementError
from .gathering import KIND_GRAPH, KIND_KERNEL
from .launches import Launches
from .rows import CaptureRows


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Rows of one process. `kernels` counts replays of whole graphs too."""

    host: str | None
    pid: int | None
    rank: int | None
    kernels: int
    copies: int
    calls: int
    ranges: int


def process_figures(rows: CaptureRows, launches: Launches) -> tuple[ProcessFigures, ...]:
    """A row a process."""
    work, count = launches.work, len(rows.processes)
    ran = (work.kind == KIND_KERNEL) | (work.kind == KIND_GRAPH)
    kernels = np.bincount(work.process[ran], minlength=count)
    copies = np.bincount(rows.copies.process, minlength=count)
    calls = np.bincount(rows.host.process[launches.is_call], minlength=count)
    ranges = np.bincount(rows.host.process[rows.host.kind == 0], minlength=count)
    return tuple(
        ProcessFigures(
            key.host, key.pid, key.rank, int(kernels[place]), int(copies[place]), int(calls[place]), int(ranges[place])
        )
        for place, key in enumerate(rows.processes)
    )


def check_processes(found: Sequence[ProcessFigures], expected: Sequence[int], where: str) -> None:
    """Raise MeasurementError (exit 3) that names the first of the `expected` pids without a kernel in the capture.

    In a container the profiler may see another pid than the process itself: expected pids are those of the capture.
    """
    kernels = {own.pid: own.kernels for own in found}
    missing = [pid for pid in expected if not kernels.get(pid)]
    if missing:
        seen = ", ".join(str(own.pid) for own in found if own.kernels) or "none"
        raise MeasurementError(
            f"{where}: process {missing[0]} has no GPU kernels in the capture (with kernels: {seen}); capture with "
            "--trace-fork-before-exec=true, start workers by spawn, and end them before the profiler"
        )
