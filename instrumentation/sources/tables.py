"""The tables of a Recording from a trace and its attribution."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..recording.schema import TABLES
from .arrays import ABSENT, LongArray, blocks, filled
from .attribution import Attribution, Owners
from .calls import call_of
from .columns import TableColumns
from .nesting import depths, in_order
from .phase_maps import PHASES
from .step_tables import phase_table, step_table
from .trace import DEVICE_KINDS, DIRECTIONS, HOST_KINDS, MEMORIES, OP, RANGE, HostRows, Trace

CLOCKS = {"session": "nsys_session", "wall": "unix"}
"""clock_id of a trace's times."""


def tables_of(trace: Trace, found: Attribution) -> dict[str, pa.Table]:
    """All tables by name, empty ones included."""
    clock = CLOCKS[trace.clock]
    made = {
        "steps": step_table(trace, found, clock), "phases": phase_table(trace, found, clock),
        "spans": _spans(trace, found), "copies": _copies(trace, found),
    }
    return {name: made[name] if name in made else TableColumns(name, 0).table() for name in TABLES}


def step_numbers(found: Attribution, owners: Owners) -> LongArray:
    """The step number of each row, ABSENT outside steps."""
    if not len(found.steps):
        return filled(len(owners.step))
    return np.where(owners.step >= 0, found.steps.number[np.maximum(owners.step, 0)], ABSENT)


def _spans(trace: Trace, found: Attribution) -> pa.Table:
    """Host rows, then device rows."""
    host, device = trace.host, trace.device
    columns = TableColumns("spans", len(host) + len(device))
    step = np.concatenate((step_numbers(found, found.host), step_numbers(found, found.device)))
    columns.keys(np.concatenate((host.process, device.process)), trace.processes, CLOCKS[trace.clock], step)
    columns.texts("device", np.concatenate((filled(len(host), -1), device.device)), trace.devices)
    on_device = np.repeat(np.array([0, 1], dtype=np.int64), (len(host), len(device)))
    columns.lanes(on_device, np.concatenate((host.thread, device.stream)), ("host", "gpu"))
    columns.texts("name", np.concatenate((host.name, device.name)), trace.names)
    columns.texts("kind", np.concatenate((host.kind, device.kind + len(HOST_KINDS))), (*HOST_KINDS, *DEVICE_KINDS))
    columns.ints("depth", np.concatenate((_depth(host), filled(len(device)))))
    columns.ints("start_ns", np.concatenate((host.start, device.start)))
    columns.ints("end_ns", np.concatenate((host.end, device.end)))
    columns.ints("correlation", np.concatenate((host.correlation, device.correlation)))
    columns.texts("domain", np.concatenate((np.maximum(host.domain, -1), filled(len(device), -1))), trace.names)
    columns.texts("phase", np.concatenate((found.host.phase, found.device.phase)), PHASES)
    columns.ints("graph_node", np.concatenate((filled(len(host)), device.graph_node)))
    columns.ints("size_bytes", np.concatenate((filled(len(host)), device.size_bytes)))
    return columns.table()


def _depth(host: HostRows) -> LongArray:
    """Depth of ranges and operators on their thread; ABSENT for the rest."""
    found = filled(len(host))
    rows = np.flatnonzero((host.kind == RANGE) | (host.kind == OP))
    rows = rows[np.lexsort((host.thread[rows], host.process[rows]))]
    for first, stop in blocks(host.process[rows]):
        for begin, finish in blocks(host.thread[rows][first:stop]):
            own = rows[first + begin : first + finish]
            own = own[in_order(host.start[own], host.end[own])]
            found[own] = depths(host.start[own], host.end[own])
    return found


def _copies(trace: Trace, found: Attribution) -> pa.Table:
    rows, owners = trace.copies, found.copies
    columns = TableColumns("copies", len(rows))
    columns.keys(rows.process, trace.processes, CLOCKS[trace.clock], step_numbers(found, owners))
    columns.texts("device", rows.device, trace.devices)
    columns.texts("direction", rows.direction, DIRECTIONS)
    columns.texts("src_kind", rows.src_kind, MEMORIES)
    columns.texts("dst_kind", rows.dst_kind, MEMORIES)
    columns.lanes(np.zeros(len(rows), dtype=np.int64), rows.stream, ("gpu",))
    for name in ("size_bytes", "copy_count", "graph_node", "correlation"):
        columns.ints(name, getattr(rows, name))
    columns.ints("start_ns", rows.start)
    columns.ints("end_ns", rows.end)
    columns.texts("phase", owners.phase, PHASES)
    _calls_of_copies(columns, trace, owners.call)
    return columns.table()


def _calls_of_copies(columns: TableColumns, trace: Trace, call: LongArray) -> None:
    """When the call behind each copy ran, which it was, and whether it asked for an asynchronous copy."""
    known, host = call >= 0, trace.host
    if not len(host):
        return
    place = np.maximum(call, 0)
    columns.ints("enqueue_start_ns", np.where(known, host.start[place], ABSENT))
    columns.ints("enqueue_end_ns", np.where(known, host.end[place], ABSENT))
    columns.texts("api", np.where(known, host.name[place], -1), trace.names)
    told = [call_of(trace.names[code]) for code in range(len(trace.names))]
    is_copy = np.array([own.is_copy for own in told], dtype=np.bool_)
    is_async = np.array([own.is_async for own in told], dtype=np.bool_)
    columns.flags("is_async", is_async[host.name[place]], known & is_copy[host.name[place]])
