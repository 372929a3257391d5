"""A capture as a Recording: meta and Arrow tables, saved without a detour over pandas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ..recording.convert import arrow_schema, explain_columns, to_frame
from ..recording.meta import ClockInfo, Diagnostic, ProcessKeys, RecordingMeta
from ..recording.reader import Recording
from ..recording.schema import TABLES
from ..recording.storage import META_FILE, make_folder, write_json, write_table
from .arrays import grouped
from .attribution import attribute
from .phase_maps import BUILT_IN, PhaseMap
from .tables import CLOCKS, tables_of
from .trace import RANGE, Trace

_CLOCK_DOCS = {
    "session": "nanoseconds since the capture began; configuration.session_start_utc_ns is that moment since 1970",
    "wall": "nanoseconds since 1970, as the profiler gives them",
}


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How to read. salvage: take what is whole of a damaged file. phase_map: asked before the built-in ones."""

    salvage: bool = False
    phase_map: PhaseMap | None = None

    @property
    def maps(self) -> tuple[PhaseMap, ...]:
        """All maps in the order of asking."""
        return (*((self.phase_map,) if self.phase_map else ()), *BUILT_IN)


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """`tables` by name, in the schema's order, texts dictionary-encoded. Nothing in it names a user, host or path."""

    meta: RecordingMeta
    tables: Mapping[str, pa.Table]

    def recording(self) -> Recording:
        """The same in pandas frames of the schema's types."""
        plain = {name: table.cast(arrow_schema(name, in_sweep=False)) for name, table in self.tables.items()}
        return Recording(self.meta, {name: to_frame(table) for name, table in plain.items()})

    def save(self, folder: Path | str) -> Path:
        """Write the folder of a Recording; `recording.json` comes last."""
        folder = Path(folder)
        make_folder(folder)
        (folder / META_FILE).unlink(missing_ok=True)
        for name, table in self.tables.items():
            write_table(folder / f"{name}.parquet", table)
        write_json(folder / META_FILE, self.meta)
        return folder


def capture_of(trace: Trace, options: CaptureOptions) -> Capture:
    """Attribute a trace and make its tables."""
    found = attribute(trace, options.maps)
    tables = tables_of(trace, found)
    alone = trace.processes[0] if len(trace.processes) == 1 else None
    meta = RecordingMeta(
        source=trace.source, device=_device(trace), environment=dict(trace.environment),
        clocks=(ClockInfo(clock_id=CLOCKS[trace.clock], kind="measured", doc=_CLOCK_DOCS[trace.clock]),),
        configuration={
            **trace.facts, "absent": list(trace.absent), "steps_from": found.steps.family,
            "phase_maps": [phase_map.name for phase_map in options.maps],
            "index_building": _index_building(trace, options),
        },
        process=ProcessKeys(
            pid=alone.pid if alone else None, rank=alone.rank if alone else None, clock_id=CLOCKS[trace.clock]
        ),
        diagnostics=tuple(Diagnostic(note.table, note.column, note.reason) for note in trace.notes),
    )
    nulls = [
        (name, column.name) for name in TABLES for column in TABLES[name] if tables[name][column.name].null_count
    ]
    return Capture(explain_columns(nulls, meta), tables)


def _device(trace: Trace) -> str:
    """cpu for a trace of torch.profiler that names no GPU and has neither work of one nor calls. Work that nsys did not
    trace may have run on a GPU all the same."""
    seen = len(trace.device) or len(trace.copies) or "calls" not in trace.absent or trace.environment.get("gpu_name")
    return "cuda" if trace.source == "nsys" or seen else "cpu"


def _index_building(trace: Trace, options: CaptureOptions) -> list[str]:
    """Names of the capture's ranges in which the host builds indices, for the question what copies hide behind."""
    ranges = trace.host.taken(trace.host.kind == RANGE)
    _, first = grouped(ranges.name, ranges.domain)
    pairs = zip(ranges.name[first].tolist(), ranges.domain[first].tolist(), strict=True)
    found = {
        trace.names[name]
        for name, domain in pairs
        for phase_map in options.maps
        if phase_map.builds_indices(trace.names[name], trace.names[domain] if domain >= 0 else None)
    }
    return sorted(found)
