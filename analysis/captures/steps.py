"""Steps and phases of a capture: the device work that their calls launched, wherever in time it ran."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...instrumentation.recording.busy import covers
from ...instrumentation.sources.arrays import ABSENT, LongArray, grouped, members
from ...instrumentation.sources.phase_maps import PHASES
from ..stats import median
from ..tables import nullable, records
from .gathering import KIND_COPY, KIND_GRAPH, KIND_KERNEL
from .lacks import Lacks
from .launches import Launches
from .rows import CaptureRows, ProcessKey, absent_where_null

_OWN = ("step", "start_ns", "end_ns", "period_ns", "num_tokens", "num_reqs", "num_launches", "num_syncs", "num_h2d")
_PHASES = {
    "pid": "Int64", "rank": "Int64", "device": "string", "phase": "string", "origin": "string", "steps": "Int64",
    "host_ns": "Int64", "host_p50_ns": "Float64", "busy_ns": "Int64", "busy_p50_ns": "Float64",
}  # fmt: skip


def step_table(rows: CaptureRows, launches: Launches, lacks: Lacks, lost: str | None = None) -> pd.DataFrame:
    """A row a step and device that it worked on, in order of process, step and device.

    Columns: pid, rank, step, start_ns, end_ns, period_ns, num_tokens, num_reqs, num_launches, num_syncs, num_h2d,
    graph_launches, complete; device, window_ns, busy_ns, idle_ns, gaps, kernels, graph_replays, copies. The device's
    figures are of the work that the step launched: the window reaches from its first start to its last end, busy is
    the union, idle the rest; null with counts of 0 for a step that launched nothing, and counts of null where no calls
    were recorded, none is tied to the kernels (copies), or work left no row (`lost`, as `lost_work` gives it): then
    nobody knows what a step launched.
    """
    work = launches.work
    step = _row_of_step(rows, work.process, work.step)
    chosen = np.flatnonzero(step >= 0)
    work, step = work.taken(chosen), step[chosen]
    group, head = grouped(step, work.device)
    cover = covers(group, work.start, work.end, len(head))
    idle_steps = np.setdiff1d(np.arange(len(rows.steps)), step)
    row = np.concatenate((step[head], idle_steps))
    order = np.lexsort((np.concatenate((work.device[head], idle_steps * 0)), row))
    row, worked = row[order], np.concatenate((np.ones(len(head)), np.zeros(len(idle_steps))))[order] > 0
    place = np.where(worked, order, 0)

    def spread(values: LongArray) -> LongArray:
        return values[place] if len(values) else np.zeros(len(row), dtype=np.int64)

    columns: dict[str, object] = _own_columns(rows, row)
    told = np.full(len(row), lacks.calls is None, dtype=np.bool_)
    columns["graph_launches"] = nullable(_graph_launches(rows, launches)[row], told)
    names = np.array([key.device for key in rows.devices] + [""], dtype=object)
    named = names[spread(work.device[head])].tolist()
    columns["device"] = pd.array(
        [name if own else None for name, own in zip(named, worked.tolist(), strict=True)], dtype="string"
    )
    for name, values in (
        ("window_ns", cover.window_ns), ("busy_ns", cover.busy_ns), ("idle_ns", cover.idle_ns),
        ("gaps", cover.pieces - 1),
    ):  # fmt: skip
        columns[name] = nullable(spread(values), worked & ((lost or lacks.work_calls) is None))
    for name, (kind, why) in _counted(lacks).items():
        counts = np.bincount(group[work.kind == kind], minlength=len(head))
        known = np.full(len(row), why is None and "calls" not in rows.absent, dtype=np.bool_)
        columns[name] = nullable(np.where(worked, spread(counts), 0), known)
    return pd.DataFrame(columns)


def _counted(lacks: Lacks) -> dict[str, tuple[int, str | None]]:
    """(kind of the rows, why nobody can count them) by column."""
    return {
        "kernels": (KIND_KERNEL, lacks.kernels or lacks.kernel_calls),
        "graph_replays": (KIND_GRAPH, lacks.replays or lacks.replay_calls),
        "copies": (KIND_COPY, lacks.copies or lacks.copy_calls),
    }  # fmt: skip


def _own_columns(rows: CaptureRows, row: LongArray) -> dict[str, object]:
    found: dict[str, object] = {}
    keys = [rows.processes[place] for place in rows.step_process[row].tolist()]
    for name in ("pid", "rank"):
        found[name] = pd.array([getattr(key, name) for key in keys], dtype="Int64")
    for name in _OWN:
        values, valid = rows.steps.ints(name)
        found[name] = nullable(values[row], valid[row])
    found["complete"] = rows.steps.flags("complete", null=True)[row]
    return found


def _row_of_step(rows: CaptureRows, process: LongArray, step: LongArray) -> LongArray:
    """Row of `steps` for each (process, step number), -1 where there is none."""
    numbers = absent_where_null(*rows.steps.ints("step"))
    if not len(numbers):
        return np.full(len(step), -1, dtype=np.int64)
    group, _ = grouped(np.concatenate((rows.step_process, process)), np.concatenate((numbers, step)))
    row = np.full(int(group.max()) + 1, -1, dtype=np.int64)
    row[group[: len(numbers)]] = np.arange(len(numbers))
    return np.where(step == ABSENT, -1, row[group[len(numbers) :]])


def _graph_launches(rows: CaptureRows, launches: Launches) -> LongArray:
    """Graph launches of each row of `steps`."""
    own = np.flatnonzero(launches.is_graph_launch)
    step = _row_of_step(rows, rows.host.process[own], rows.host.step[own])
    return np.bincount(step[step >= 0], minlength=len(rows.steps)).astype(np.int64)


def phase_table(rows: CaptureRows, unsaid: str | None = None) -> pd.DataFrame:
    """A row a process, device, phase and origin: sums and medians over the steps that have the phase.

    Columns: pid, rank, device, phase, origin (ranges:<map> or inferred), steps, host_ns, host_p50_ns, busy_ns,
    busy_p50_ns. Host and device figures overlap in time and are never added up. Device figures are null where nobody
    can say all that calls launched (`unsaid`).
    """
    table = rows.phase_rows
    if not len(table):
        return records([], _PHASES)
    (device, devices), (name, names) = table.coded("device"), table.coded("name")
    origin, origins = table.coded("origin")
    group, _ = grouped(rows.phase_process, name, device)
    host, busy = absent_where_null(*table.ints("host_ns")), absent_where_null(*table.ints("busy_ns"))
    busy = busy if unsaid is None else np.full_like(busy, ABSENT)
    found = []
    for own in members(group):
        row = own[0]
        key: ProcessKey = rows.processes[rows.phase_process[row]]
        told = origin[own]
        found.append({
            "pid": key.pid, "rank": key.rank, "device": devices[device[row]] if device[row] >= 0 else None,
            "phase": names[name[row]] if name[row] >= 0 else None,
            "origin": origins[told[told >= 0][0]] if (told >= 0).any() else None, "steps": len(own),
            **_sums("host", host[own]), **_sums("busy", busy[own]),
        })  # fmt: skip
    found.sort(key=lambda own: (str(own["pid"]), str(own["rank"]), str(own["device"]), _place(own["phase"])))
    return records(found, _PHASES)


def _place(phase: object) -> int:
    return PHASES.index(phase) if phase in PHASES else len(PHASES)


def _sums(name: str, values: LongArray) -> dict[str, object]:
    known = values[values != ABSENT]
    return {f"{name}_ns": int(known.sum()) if len(known) else None, f"{name}_p50_ns": median(known)}
