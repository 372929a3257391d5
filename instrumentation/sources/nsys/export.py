"""An nsys SQLite export, schemas 2.9.1 to 3.25.0 and re-cut subsets of them, as a Trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ....errors import MeasurementError, UsageError
from ..hosts import check_devices
from ..links import lacks_kernels
from ..trace import CALLS as KINDS_OF_CALLS
from ..trace import KERNEL, RANGE, CopyRows, DeviceRows, HostRows, Note, Trace
from . import about
from .activities import (
    COPIES,
    GRAPHS,
    KERNELS,
    MEMSETS,
    Reading,
    copy_rows,
    graph_rows,
    kernel_rows,
    memset_rows,
    place_devices,
)
from .database import Database
from .host import CALLS, call_rows, overhead_rows
from .nvtx import TABLE as RANGES
from .nvtx import range_rows

_KNOWN = (KERNELS, COPIES, MEMSETS, GRAPHS, CALLS, RANGES)


def read_export(path: Path) -> Trace:
    """The whole export.

    Raises UsageError for a database that no nsys wrote, MeasurementError (exit 3) for one with calls of CUDA and
    nothing that a device executed, or with launches and no kernel. An export with ranges only is a good one.
    """
    database = Database(path)
    try:
        if not any(database.has(table) for table in _KNOWN):
            raise UsageError(
                f"{path}: not an nsys SQLite export (none of its tables is there); "
                "make one with: nsys export -t sqlite REPORT.nsys-rep"
            )
        return _read(database, path)
    finally:
        database.close()


def _read(database: Database, path: Path) -> Trace:
    reading = Reading(database)
    device = kernel_rows(reading).joined(memset_rows(reading), graph_rows(reading))
    copies = copy_rows(reading)
    host = call_rows(reading)
    if len(host) and lacks_kernels(host, device, copies):
        raise MeasurementError(f"{path}: {_what(copies)}, {_why_none(database, len(host))}")
    last = max((int(rows.end.max()) for rows in (device, copies, host) if len(rows)), default=0)
    host = host.joined(range_rows(reading, last), overhead_rows(reading))
    host, device, copies = _settled(reading, host, device, copies)
    device, copies, devices = place_devices(reading, device, copies)
    trace = Trace(
        source="nsys", processes=reading.processes.listed(), devices=devices, names=reading.names.texts(),
        host=host, device=device, copies=copies, clock="session",
        absent=_absent(host, device, copies),
        environment=about.environment(database), facts=about.facts(database) | {"invalid_rows": dict(reading.invalid)},
        notes=(*about.diagnostics(database), *_invalid(reading)),
    )
    check_devices(trace, path, "deviceId")
    return trace


def _absent(host: HostRows, device: DeviceRows, copies: CopyRows) -> tuple[str, ...]:
    """Kinds of rows of which the export has none, or none with usable times."""
    found = {
        "kernels": bool((device.kind == KERNEL).any()), "copies": len(copies) > 0,
        "calls": bool(np.isin(host.kind, KINDS_OF_CALLS).any()), "ranges": bool((host.kind == RANGE).any()),
    }  # fmt: skip
    return tuple(name for name, there in found.items() if not there)


def _settled(
    reading: Reading, host: HostRows, device: DeviceRows, copies: CopyRows
) -> tuple[HostRows, DeviceRows, CopyRows]:
    settle = reading.processes.settle
    return (
        replace(host, process=settle(host.process)),
        replace(device, process=settle(device.process)),
        replace(copies, process=settle(copies.process)),
    )


def _what(copies: CopyRows) -> str:
    return f"no GPU kernels beside {len(copies)} copies" if len(copies) else "no GPU kernels and no copies"


def _why_none(database: Database, calls: int) -> str:
    said = [note.reason for note in about.diagnostics(database) if "CUDA" in note.reason]
    because = said[0] if said else "the export has no table of them"
    return f"though {calls} calls of CUDA were recorded ({because}); capture again with nsys profile -t cuda,nvtx"


def _invalid(reading: Reading) -> tuple[Note, ...]:
    return tuple(
        Note("spans", "start_ns", f"{count} rows of {table} without usable times were left out")
        if not table.startswith("ranges")
        else Note("spans", "end_ns", f"{count} {table} end with the capture")
        for table, count in reading.invalid.items()
    )
