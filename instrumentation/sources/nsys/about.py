"""What an nsys export says of itself, from named fields only: the same tables hold environments and command lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...recording.registry import Value
from ..trace import Note
from .database import Database

_SCHEMA_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_VERSION = re.compile(r"[0-9][0-9.]{0,31}")
_MODES = {"graph": "graph", "node": "node"}
_NONE = "nsys: no {} events were collected"
_LOST = (
    (re.compile(r"No (CUDA|NVTX) events collected\b"), _NONE),
    (re.compile(r"Not all (CUDA|NVTX) events might have been collected\b"), "nsys: not all {} events may be there"),
    (re.compile(r"(CUDA|NVTX) (?:profiling|tracing) (?:stopped|might have been stopped) prematurely"),
     "nsys: {} tracing stopped early"),
)
_AFFECTS = {"CUDA": ("spans", "start_ns"), "NVTX": ("spans", "name")}
_TABLES = {"CUDA": "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX": "NVTX_EVENTS"}
_SERIOUS = 3


def schema_version(database: Database) -> str | None:
    """EXPORT_SCHEMA_VERSION; None in exports of 2020 and in ones cut by hand."""
    return _version(_pairs(database, _SCHEMA_TABLES), "EXPORT_SCHEMA_VERSION")


def facts(database: Database) -> dict[str, Any]:
    """Versions, graph trace mode, where the session's clock stands: only values of a known shape."""
    exported = _pairs(database, _SCHEMA_TABLES)
    captured = _pairs(database, ("META_DATA_CAPTURE",))
    mode = captured.get("CUDA_GRAPH_TRACE_OPTIONS:MODE", "")
    epoch = next(iter(database.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")), (None,))[0]
    return {
        "schema_version": _version(exported, "EXPORT_SCHEMA_VERSION"),
        "product_version": _version(exported, "EXPORT_PRODUCT_VERSION"),
        "graph_trace": _MODES.get(mode.lower()),
        "session_start_utc_ns": epoch if isinstance(epoch, int) else None,
    }


def environment(database: Database) -> Mapping[str, Value]:
    """The GPU's name, and how many there are."""
    gpus = [(name, memory) for name, memory in database.rows("TARGET_INFO_GPU", "name", "totalMemory")]
    if not gpus:
        return {}
    name, memory = gpus[0]
    return {
        "gpu_name": name if isinstance(name, str) and name else None,
        "gpu_memory_bytes": memory if isinstance(memory, int) else None,
        "gpu_count": len(gpus),
    }


def diagnostics(database: Database) -> tuple[Note, ...]:
    """What nsys says was lost, in our words: its own texts may hold paths and command lines."""
    found: dict[Note, None] = {}
    errors = 0
    for severity, text in database.rows("DIAGNOSTIC_EVENT", "severity", "text"):
        errors += severity == _SERIOUS
        for pattern, words in _LOST:
            match = pattern.match(text) if isinstance(text, str) else None
            if match:
                found[Note(*_AFFECTS[match[1]], words.format(match[1]) + _of_whom(database, match[1], words))] = None
    if errors:
        found[Note("spans", "start_ns", f"nsys noted {errors} errors while it collected")] = None
    return tuple(found)


def _of_whom(database: Database, kind: str, words: str) -> str:
    """nsys says so of each process that it followed, helpers too: where there are events, it means one of these."""
    return " of one process or more" if words == _NONE and database.count(_TABLES[kind]) else ""


def lost_events(database: Database) -> list[tuple[int | None, str]]:
    """(severity, the words that `diagnostics` knows) of the events that it counts, without the rest of their texts."""
    found: list[tuple[int | None, str]] = []
    for severity, text in database.rows("DIAGNOSTIC_EVENT", "severity", "text"):
        matches = [pattern.match(text) for pattern, _ in _LOST] if isinstance(text, str) else []
        words = next((match[0] for match in matches if match), "")
        if words or severity == _SERIOUS:
            found.append((severity if isinstance(severity, int) else None, words))
    return found


def _pairs(database: Database, tables: tuple[str, ...]) -> dict[str, str]:
    wanted = ("EXPORT_SCHEMA_VERSION", "EXPORT_PRODUCT_VERSION", "CUDA_GRAPH_TRACE_OPTIONS:MODE")
    rows = [row for table in tables for row in database.rows(table, "name", "value")]
    return {name: str(value) for name, value in rows if name in wanted}


def _version(pairs: Mapping[str, str], key: str) -> str | None:
    match = _VERSION.fullmatch(pairs.get(key, ""))
    return match[0] if match else None
