"""CUDA graphs in a capture: launches, what each replayed, and how many steps ran without one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...instrumentation.sources.arrays import ABSENT, LongArray, grouped, rows_by
from ..stats import median
from .gathering import KIND_COPY, KIND_GRAPH, KIND_KERNEL
from .lacks import Lacks
from .launches import Launches
from .rows import CaptureRows


@dataclass(frozen=True, slots=True)
class GraphFigures:
    """Graph launches of one process.

    launches, launch_host_ns   calls, and the host time in them (once a call, however many kernels it replays); null
                               where no call has a name (`Lacks.calls`)
    kernels                    recorded kernels behind those calls; `whole_replays` rows that stand for a graph each
    kernels_per_launch_*       over launches with recorded kernels; null where the capture has only whole graphs
    eager_kernels              kernels behind ordinary launches; `unlinked_kernels` behind no recorded call
    graph_steps, eager_steps   steps with a graph launch, and with launches but without one; null without steps

    What rests on the calls behind kernels is null where no kernel is tied to one (`Lacks.kernel_calls`), and what rests
    on rows that the capture should have and has not (`Lacks.kernels`, `Lacks.replays`) as well.
    """

    pid: int | None
    rank: int | None
    launches: int | None
    launch_host_ns: int | None
    kernels: int | None
    kernel_sum_ns: int | None
    whole_replays: int | None
    whole_replay_sum_ns: int | None
    kernels_per_launch_p50: float | None
    kernels_per_launch_min: int | None
    kernels_per_launch_max: int | None
    eager_kernels: int | None
    unlinked_kernels: int | None
    graph_steps: int | None
    eager_steps: int | None


def graph_figures(rows: CaptureRows, launches: Launches, lacks: Lacks) -> tuple[GraphFigures, ...]:
    """A row a process that executed something on a device."""
    called = np.flatnonzero(launches.is_graph_launch)
    calls = {place: called[own] for place, own in rows_by(rows.host.process[called]).items()}
    steps = _Steps(rows, launches)
    nulls = _nulls(lacks)
    found = []
    for place, own in rows_by(launches.work.process).items():
        figures = _figures(rows, launches, own, calls.get(place, called[:0]))
        graph_steps, eager_steps = steps.of(place)
        found.append(replace(replace(figures, graph_steps=graph_steps, eager_steps=eager_steps), **nulls))
    return tuple(found)


def _nulls(lacks: Lacks) -> dict[str, Any]:
    """Figures that nobody can say."""
    found: dict[str, Any] = {}
    if lacks.calls is not None:
        found |= dict.fromkeys(("launches", "launch_host_ns"))
    if lacks.calls or lacks.kernel_calls or lacks.kernels:
        found |= dict.fromkeys(("kernels", "kernel_sum_ns", "eager_kernels", "graph_steps", "eager_steps"))
    if lacks.kernels is not None:
        found |= {"unlinked_kernels": None}
    return found | (dict.fromkeys(("whole_replays", "whole_replay_sum_ns")) if lacks.replays else {})


def _figures(rows: CaptureRows, launches: Launches, own: LongArray, calls: LongArray) -> GraphFigures:
    """Of one process: `own` are its rows of device work, `calls` its graph launches. The steps are filled in later."""
    host, call = rows.host, launches.call[own]
    kind, duration = launches.work.kind[own], launches.work.duration[own]
    kernel, whole, linked = kind == KIND_KERNEL, kind == KIND_GRAPH, call >= 0
    by_graph = linked & launches.is_graph_launch[np.maximum(call, 0)] if len(host) else linked
    replayed = kernel & by_graph
    counts = np.unique(call[replayed], return_counts=True)[1]
    key = rows.processes[launches.work.process[own[0]]]
    return GraphFigures(
        pid=key.pid, rank=key.rank, launches=len(calls), launch_host_ns=int(host.taken(calls).duration.sum()),
        kernels=int(replayed.sum()), kernel_sum_ns=int(duration[replayed].sum()), whole_replays=int(whole.sum()),
        whole_replay_sum_ns=int(duration[whole].sum()), kernels_per_launch_p50=_p50(counts),
        kernels_per_launch_min=int(counts.min()) if len(counts) else None,
        kernels_per_launch_max=int(counts.max()) if len(counts) else None,
        eager_kernels=int((kernel & linked & ~by_graph).sum()), unlinked_kernels=int((kernel & ~linked).sum()),
        graph_steps=None, eager_steps=None,
    )


def _p50(counts: LongArray) -> float | None:
    found = median(counts.astype(np.int64))
    return None if found is None else float(found)


class _Steps:
    """The steps of each process, by what launched in them."""

    def __init__(self, rows: CaptureRows, launches: Launches) -> None:
        host, work = rows.host, launches.work
        graph = launches.is_graph_launch & (host.step != ABSENT)
        busy = (work.step != ABSENT) & (work.kind != KIND_COPY)
        process = np.concatenate((host.process[graph], work.process[busy]))
        step = np.concatenate((host.step[graph], work.step[busy]))
        group, first = grouped(process, step)
        with_graph = np.zeros(len(first), dtype=np.bool_)
        with_graph[group[: int(graph.sum())]] = True
        count = len(rows.processes)
        self._graph = np.bincount(process[first][with_graph], minlength=count)
        self._eager = np.bincount(process[first][~with_graph], minlength=count)
        self._marked = set(np.unique(rows.step_process).tolist())

    def of(self, place: int) -> tuple[int | None, int | None]:
        """(steps with a graph launch, steps with other launches only) of a process; None where it has no steps."""
        return (int(self._graph[place]), int(self._eager[place])) if place in self._marked else (None, None)
