"""Host rows of an nsys export: calls of the runtime and driver, and the profiler's own work."""

from __future__ import annotations

import numpy as np

from ..arrays import LongArray, distinct, filled
from ..calls import NO_NAME, call_of
from ..trace import OVERHEAD, HostRows
from .activities import Reading, named
from .processes import threads

CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
OVERHEADS = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")


def call_rows(reading: Reading) -> HostRows:
    """Calls of the CUDA runtime and driver, their names without version suffixes."""
    columns = reading.database.integers(CALLS, "start", "end", "globalTid", "correlationId", "nameId")
    good = reading.valid(CALLS, columns["start"], columns["end"])
    columns = {name: values[good] for name, values in columns.items()}
    ids, place = distinct(columns["nameId"])
    texts = reading.database.strings(ids)
    calls = [call_of(texts.get(key, NO_NAME)) for key in ids.tolist()]
    names = np.array([reading.names.code(call.name) for call in calls], dtype=np.int64)
    kinds = np.array([call.kind for call in calls], dtype=np.int64)
    return _rows(reading, columns, names[place], kinds[place])


def overhead_rows(reading: Reading) -> HostRows:
    """Time that the profiler itself took: buffer flushes, requests for buffers."""
    found = HostRows()
    for table in OVERHEADS:
        columns = reading.database.integers(table, "start", "end", "globalTid", "correlationId", "nameId")
        good = reading.valid(table, columns["start"], columns["end"])
        columns = {name: values[good] for name, values in columns.items()}
        names = named(reading, columns["nameId"], "profiler overhead")
        found = found.joined(_rows(reading, columns, names, filled(len(names), OVERHEAD)))
    return found


def _rows(reading: Reading, columns: dict[str, LongArray], name: LongArray, kind: LongArray) -> HostRows:
    return HostRows(
        process=reading.processes.of(columns["globalTid"]), thread=threads(columns["globalTid"]),
        start=columns["start"], end=columns["end"], correlation=columns["correlationId"],
        kind=kind, name=name, domain=filled(len(name)),
    )
