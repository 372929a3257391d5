"""Older recordings become current ones, one version at a time; newer ones are refused.

A step takes the raw content of version N and gives that of version N + 1. It never fills a gap from the machine that
reads: what the old version did not hold becomes null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...errors import UsageError
from ..probe.ledger import Row
from .schema import ONLY_CAPTURES, SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class RawRecording:
    """Content of the files before it is checked: the JSON object and the Parquet tables by name."""

    meta: Mapping[str, Any]
    tables: Mapping[str, pa.Table]


UpgradeStep = Callable[[RawRecording], RawRecording]

_ADDED_IN_2 = {
    "spans": {"domain": pa.string(), "phase": pa.string(), "graph_node": pa.int64(), "size_bytes": pa.int64()},
    "copies": {"phase": pa.string(), "api": pa.string(), "copy_count": pa.int64(), "graph_node": pa.int64()},
    "phases": {"origin": pa.string()},
}


def _to_2(raw: RawRecording) -> RawRecording:
    """The columns of imported captures; a recording of version 1 came from the probe, so they are null."""
    tables = dict(raw.tables)
    notes = list(raw.meta.get("diagnostics", ()))
    for name, added in _ADDED_IN_2.items():
        table = tables.get(name)
        for column, type_ in added.items() if table is not None else ():
            if column not in tables[name].column_names:
                tables[name] = tables[name].append_column(column, pa.nulls(len(tables[name]), type_))
                if len(tables[name]):
                    notes.append({"table": name, "column": column, "reason": ONLY_CAPTURES})
    return RawRecording({**raw.meta, "diagnostics": notes}, tables)


_SPECULATION = ("drafted_reqs", "drafted_tokens", "accepted_tokens")
_BEFORE_3 = "recordings before version 3 do not say what was drafted"


def _to_3(raw: RawRecording) -> RawRecording:
    """What steps verified and accepted of drafts was not recorded before."""
    tables = dict(raw.tables)
    steps = tables.get("steps")  # None: a killed run, whose rows `upgrade_rows` pads
    added = _SPECULATION if steps is None else [name for name in _SPECULATION if name not in steps.column_names]
    for name in added if steps is not None else ():
        tables["steps"] = tables["steps"].append_column(name, pa.nulls(len(tables["steps"]), pa.int64()))
    notes = [
        {"table": "steps", "column": name, "reason": _BEFORE_3} for name in added if steps is None or len(steps)
    ]
    return RawRecording({**raw.meta, "diagnostics": [*raw.meta.get("diagnostics", ()), *notes]}, tables)


UPGRADES: dict[int, UpgradeStep] = {1: _to_2, 2: _to_3}
"""Version N -> the step to N + 1."""


def upgrade_rows(version: int, rows: Mapping[str, Sequence[Row]]) -> dict[str, Sequence[Row]]:
    """A killed run's rows, which are still the ledger's, as the current version has them."""
    found = dict(rows)
    if version < 3 and "steps" in found:  # before the flags of a step
        found["steps"] = [(*row[:-2], *(None for _ in _SPECULATION), *row[-2:]) for row in found["steps"]]
    return found


def check_version(meta: Mapping[str, Any], where: str) -> int:
    """The version in `meta`, or a UsageError: it is missing, newer than ours, or too old for our steps."""
    version = meta.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UsageError(f"{where}: schema_version is missing or no integer; this is not a recording of stepscope")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{where}: schema_version {version} is newer than {SCHEMA_VERSION}, the newest that this program reads; "
            "install a newer stepscope (pip install -U stepscope)"
        )
    missing = [number for number in range(version, SCHEMA_VERSION) if number not in UPGRADES]
    if missing:
        raise UsageError(f"{where}: schema_version {version} is too old to be upgraded; record again")
    return version


def upgrade(raw: RawRecording, where: str) -> RawRecording:
    """The current version of `raw`; each step that it takes is added to the history."""
    for version in range(check_version(raw.meta, where), SCHEMA_VERSION):
        stepped = UPGRADES[version](raw)
        history = [*raw.meta.get("history", ()), f"upgraded from schema {version} to {version + 1}"]
        raw = RawRecording({**stepped.meta, "schema_version": version + 1, "history": history}, stepped.tables)
    return raw
