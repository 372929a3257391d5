"""CUDA graphs in a capture: launches, what each replayed, and how many steps ran without one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import ABSENT, LongArray
from ..stats import median
from .gathering import KIND_COPY, KIND_GRAPH, KIND_KERNEL
from .launches import Launches
from .rows import CaptureRows


@dataclass(frozen=True, slots=True)
class GraphFigures:
    """Graph launches of one process.

    launches, launch_host_ns   calls, and the host time in them (once a call, however many kernels it replays)
    kernels                    recorded kernels behind those calls; `whole_replays` rows that stand for a graph each
    kernels_per_launch_*       over launches with recorded kernels; null where the capture has only whole graphs
    eager_kernels              kernels behind ordinary launches; `unlinked_kernels` behind no recorded call
    graph_steps, eager_steps   steps with a graph launch, and with launches but without one; null without steps
    """

    pid: int | None
    rank: int | None
    launches: int
    launch_host_ns: int
    kernels: int
    kernel_sum_ns: int
    whole_replays: int
    whole_replay_sum_ns: int
    kernels_per_launch_p50: float | None
    kernels_per_launch_min: int | None
    kernels_per_launch_max: int | None
    eager_kernels: int
    unlinked_kernels: int
    graph_steps: int | None
    eager_steps: int | None


def graph_figures(rows: CaptureRows, launches: Launches) -> tuple[GraphFigures, ...]:
    """A row a process that executed something on a device."""
    return tuple(
        _figures(rows, launches, place) for place in np.unique(launches.work.process).tolist()
    )


def _figures(rows: CaptureRows, launches: Launches, place: int) -> GraphFigures:
    work, host = launches.work, rows.host
    own = work.process == place
    kernel, whole = own & (work.kind == KIND_KERNEL), own & (work.kind == KIND_GRAPH)
    linked = launches.call >= 0
    by_graph = linked & launches.is_graph_launch[np.maximum(launches.call, 0)] if len(host) else linked
    replayed = kernel & by_graph
    calls = launches.is_graph_launch & (host.process == place)
    counts = np.unique(launches.call[replayed], return_counts=True)[1]
    key = rows.processes[place]
    graph_steps, eager_steps = _steps(rows, launches, place)
    return GraphFigures(
        pid=key.pid, rank=key.rank, launches=int(calls.sum()), launch_host_ns=int(host.duration[calls].sum()),
        kernels=int(replayed.sum()), kernel_sum_ns=int(work.duration[replayed].sum()), whole_replays=int(whole.sum()),
        whole_replay_sum_ns=int(work.duration[whole].sum()), kernels_per_launch_p50=_p50(counts),
        kernels_per_launch_min=int(counts.min()) if len(counts) else None,
        kernels_per_launch_max=int(counts.max()) if len(counts) else None,
        eager_kernels=int((kernel & linked & ~by_graph).sum()), unlinked_kernels=int((kernel & ~linked).sum()),
        graph_steps=graph_steps, eager_steps=eager_steps,
    )


def _p50(counts: LongArray) -> float | None:
    found = median(counts.astype(np.int64))
    return None if found is None else float(found)


def _steps(rows: CaptureRows, launches: Launches, place: int) -> tuple[int | None, int | None]:
    """(steps with a graph launch, steps with other launches only) of a process; None where it has no steps."""
    if not (rows.step_process == place).any():
        return None, None
    host, work = rows.host, launches.work
    with_graph = np.unique(host.step[launches.is_graph_launch & (host.process == place) & (host.step != ABSENT)])
    busy = (work.process == place) & (work.step != ABSENT) & (work.kind != KIND_COPY)
    return len(with_graph), len(np.setdiff1d(work.step[busy], with_graph))
