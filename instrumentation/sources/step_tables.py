"""The tables `steps` and `phases` of a capture."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..recording.busy import covers
from .arrays import ABSENT, LARGEST, LongArray, filled, grouped
from .attribution import Attribution
from .calls import NO_NAME, call_of
from .columns import TableColumns
from .markers import Marker
from .phase_maps import PHASES
from .trace import CALLS, DIRECTIONS, LAUNCH, SYNC, UNKNOWN, Trace


def step_table(trace: Trace, found: Attribution, clock: str) -> pa.Table:
    """A row a step. Its end is that of its marker or of the last phase in its window, whichever is later."""
    steps, host = found.steps, trace.host
    columns = TableColumns("steps", len(steps))
    columns.keys(steps.process, trace.processes, clock, steps.number)
    end = _last_ends(found)
    columns.ints("start_ns", steps.start)
    columns.ints("end_ns", end)
    columns.ints("period_ns", _periods(steps.process, steps.start))
    if _has_named_calls(trace):
        once = (found.host.step >= 0) & ~found.inner
        waits = (host.kind == SYNC) & once
        waited = np.zeros(len(steps), dtype=np.int64)
        np.add.at(waited, found.host.step[waits], (host.end - host.start)[waits])
        launches = (host.kind == LAUNCH) & once
        columns.ints("host_wait_ns", waited)
        columns.ints("num_syncs", _counted(found.host.step[waits], len(steps)))
        columns.ints("num_launches", _counted(found.host.step[launches], len(steps)))
    if _tells_copies_of_steps(trace, found):
        to_device = (trace.copies.direction == DIRECTIONS.index("h2d")) & (found.copies.step >= 0)
        columns.ints("num_h2d", _counted(found.copies.step[to_device], len(steps)))
    for name in ("num_reqs", "num_tokens", "num_prefill", "num_decode", "kv_tokens_sum"):
        columns.ints(name, _told(steps.markers, name))
    columns.flags("warmup", np.zeros(len(steps), dtype=np.bool_))
    columns.flags("complete", steps.complete)
    return columns.table()


def _has_named_calls(trace: Trace) -> bool:
    """Whether it is known what calls did: there are some, and not all of them without a name."""
    named = np.array([name not in ("", NO_NAME) for name in trace.names], dtype=np.bool_)
    return bool(named[trace.host.name[np.isin(trace.host.kind, CALLS)]].any())


def _tells_copies_of_steps(trace: Trace, found: Attribution) -> bool:
    """Whether copies tell a call and a direction; where there are none, whether no call asked for one."""
    if not len(trace.copies):
        names = np.unique(trace.host.name[np.isin(trace.host.kind, CALLS)]).tolist()
        return _has_named_calls(trace) and not any(call_of(trace.names[code]).is_copy for code in names)
    return bool((found.copies.call >= 0).any() and (trace.copies.direction != UNKNOWN).any())


def _last_ends(found: Attribution) -> LongArray:
    steps, segments = found.steps, found.segments
    end = steps.end.copy()
    owner = steps.at(segments.process, segments.thread, segments.start)
    np.maximum.at(end, owner[owner >= 0], segments.end[owner >= 0])
    return end


def _periods(process: LongArray, start: LongArray) -> LongArray:
    """From a step's start to the next one's in its process; ABSENT for the last."""
    found = filled(len(start))
    follows = process[1:] == process[:-1]
    found[:-1][follows] = (start[1:] - start[:-1])[follows]
    return found


def _counted(rows: LongArray, count: int) -> LongArray:
    return np.bincount(rows, minlength=count).astype(np.int64)


def _told(markers: tuple[Marker | None, ...], name: str) -> LongArray:
    """What each marker told of the figure `name`."""
    values = [None if marker is None else getattr(marker, name) for marker in markers]
    return np.array([ABSENT if value is None else value for value in values], dtype=np.int64)


def phase_table(trace: Trace, found: Attribution, clock: str) -> pa.Table:
    """A row a phase of a step (a row for each device where its process drives several).

    host_ns is its time on the host, without phases inside it; busy_ns the union of the device work that it launched,
    span_ns from the first of that to the last, starved_ns the rest of the span.
    """
    steps, segments = found.steps, found.segments
    owner = steps.at(segments.process, segments.thread, segments.start)
    kept = owner >= 0
    step, phase = owner[kept], segments.phase[kept]
    works = _device_work(trace, found)
    all_step, all_phase = np.concatenate((step, works[0])), np.concatenate((phase, works[1]))
    all_device = np.concatenate((_home(step, works), works[2]))
    group, first = grouped(all_step, all_phase, all_device)
    host_ns, origin = filled(len(first)), filled(len(first), -1)
    own = group[: len(step)]
    host_ns[own] = 0
    np.add.at(host_ns, own, (segments.end - segments.start)[kept])
    origin[own] = segments.origin[kept]
    cover = covers(group[len(step) :], works[3], works[4], len(first))
    worked = cover.pieces > 0
    columns = TableColumns("phases", len(first))
    columns.keys(steps.process[all_step[first]], trace.processes, clock, steps.number[all_step[first]])
    columns.texts("device", all_device[first], trace.devices)
    columns.texts("name", all_phase[first], PHASES)
    columns.ints("host_ns", host_ns)
    for name, values in (
        ("span_ns", cover.window_ns), ("starved_ns", cover.idle_ns), ("busy_ns", cover.busy_ns),
        ("span_start_ns", cover.first_ns),
    ):  # fmt: skip
        columns.ints(name, np.where(worked, values, ABSENT))
    columns.texts("origin", origin, segments.origins)
    return columns.table()


def _device_work(trace: Trace, found: Attribution) -> tuple[LongArray, LongArray, LongArray, LongArray, LongArray]:
    """(row of the step, phase, device, start, end) of all device work that has a step and a phase."""
    parts = []
    for rows, owners in ((trace.device, found.device), (trace.copies, found.copies)):
        kept = (owners.step >= 0) & (owners.phase >= 0)
        parts.append((owners.step[kept], owners.phase[kept], rows.device[kept], rows.start[kept], rows.end[kept]))
    step, phase, device, start, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    return step, phase, device, start, end


def _home(step: LongArray, works: tuple[LongArray, ...]) -> LongArray:
    """The device that host time of a step is written beside: the lowest that the step works on; -1 for none."""
    count = max(int(step.max(initial=-1)), int(works[0].max(initial=-1))) + 1
    lowest = filled(count, LARGEST)
    np.minimum.at(lowest, works[0], works[2])
    return np.where(lowest[step] == LARGEST, -1, lowest[step])
