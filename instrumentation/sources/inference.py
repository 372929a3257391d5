"""Phases where no range tells them: read from what a step launched, and marked as inferred.

    with graph launches   preprocess until the first of them, forward until the last has been launched, then sample
    eager                 preprocess until the last copy to the device before most of the launches; sample from the
                          first sampling kernel, or copy back, after that

Where a step shows neither, its phases stay unknown.
"""

from __future__ import annotations

import re

import numpy as np

from .arrays import ABSENT, BoolArray, LongArray, blocks, empty, filled
from .calls import call_of
from .links import Calls
from .phases import PhaseSegments
from .steps import Steps
from .trace import API, DIRECTIONS, LAUNCH, SYNC, Trace

INFERRED = "inferred"
_SAMPLING = re.compile(r"argmax|top_?k|top_?p|multinomial|gumbel|exponential_|sampl|radix_?sort", re.IGNORECASE)
_MOST = 0.5


def inferred_phases(trace: Trace, steps: Steps, calls: Calls, step_of_call: LongArray) -> PhaseSegments:
    """Segments of the steps; `step_of_call` is the row in `steps` of each row of `trace.host`, -1 for none."""
    host = trace.host
    is_call = np.isin(host.kind, (LAUNCH, API, SYNC)) & (step_of_call >= 0)
    on_thread = is_call & (host.thread == _thread_of(steps, step_of_call))
    rows = np.flatnonzero(on_thread)
    rows = rows[np.lexsort((host.start[rows], step_of_call[rows]))]
    kinds = _Kinds(trace, calls)
    found: list[tuple[int, int, int, int]] = []
    for first, stop in blocks(step_of_call[rows]):
        step = int(step_of_call[rows[first]])
        borders = kinds.borders(rows[first:stop], int(steps.start[step]))
        found += [(step, phase, start, end) for phase, start, end in borders]
    if not found:
        return PhaseSegments()
    step_row, phase, start, end = np.array(found, dtype=np.int64).T
    order = np.lexsort((start, steps.thread[step_row], steps.process[step_row]))
    step_row = step_row[order]
    return PhaseSegments(
        steps.process[step_row], steps.thread[step_row], start[order], end[order], phase[order],
        filled(len(order), 0), (INFERRED,),
    )


def _thread_of(steps: Steps, step_of_call: LongArray) -> LongArray:
    if not len(steps):
        return filled(len(step_of_call))
    return np.where(step_of_call >= 0, steps.thread[np.maximum(step_of_call, 0)], ABSENT)


class _Kinds:
    """What each call of a step did, as far as the borders of phases need it."""

    def __init__(self, trace: Trace, calls: Calls) -> None:
        host = trace.host
        self._start, self._end = host.start, host.end
        graph = np.array([call_of(name).is_graph_launch for name in trace.names], dtype=np.bool_)
        sampling = np.array([_SAMPLING.search(name) is not None for name in trace.names], dtype=np.bool_)
        self._launch = host.kind == LAUNCH
        self._graph = self._launch & graph[host.name]
        self._samples = _flagged(len(host), calls.of(trace.device)[sampling[trace.device.name]])
        behind_copy = calls.of(trace.copies)
        direction = trace.copies.direction
        self._to_device = _flagged(len(host), behind_copy[direction == DIRECTIONS.index("h2d")])
        self._back = _flagged(len(host), behind_copy[direction == DIRECTIONS.index("d2h")])

    def borders(self, rows: LongArray, step_start: int) -> list[tuple[int, int, int]]:
        """(phase, start, end) of a step from its calls in order; empty where they do not tell."""
        last = max(int(self._end[rows].max()), step_start)
        graphs = rows[self._graph[rows]]
        if len(graphs):
            begin, finish = int(self._start[graphs[0]]), int(self._end[graphs].max())
        else:
            eager = self._eager(rows)
            if eager is None:
                return []
            begin, finish = eager[0], last if eager[1] is None else eager[1]
        found = [(0, step_start, begin), (1, begin, finish), (2, finish, last)]
        return [(phase, start, end) for phase, start, end in found if end > start]

    def _eager(self, rows: LongArray) -> tuple[int, int | None] | None:
        launches = self._launch[rows]
        copied = np.flatnonzero(self._to_device[rows])
        left = np.cumsum(launches[::-1])[::-1]
        early = copied[left[copied] > _MOST * launches.sum()] if launches.any() else empty()
        if not len(early):
            return None
        border = int(early[-1])
        later = rows[border + 1 :]
        ends = np.flatnonzero(self._samples[later])
        if not len(ends):
            ends = np.flatnonzero(self._back[later])
        return int(self._end[rows[border]]), int(self._start[later[ends[0]]]) if len(ends) else None


def _flagged(length: int, rows: LongArray) -> BoolArray:
    found = np.zeros(length, dtype=np.bool_)
    found[rows[rows >= 0]] = True
    return found
