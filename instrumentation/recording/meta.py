"""What `recording.json` holds: everything about a recording that is not a table."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import msgspec

from .registry import Value, check_environment
from .schema import SCHEMA_VERSION, TABLES


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


DROPPED = "rows were dropped while recording"
"""The end of a note on `steps.complete`: rows of any table are missing."""


ROWS = "rows"
"""Stands for a column in notes on rows that are not what they should be, as the probe writes them."""
KILLED = "the run was killed"
"""The beginning of an event in the history: its tail is missing."""


class ClockInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A clock that rows refer to by `clock_id`. Kinds: measured, virtual (host measured, device modelled), declared."""

    clock_id: str
    kind: str
    doc: str = ""


class Diagnostic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why values of a column are null, or what else a reader of it must know."""

    table: str
    column: str
    reason: str


class ProcessKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys that are constant in one process; they become the first columns of every row."""

    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    device: str | None = None
    clock_id: str = "host_monotonic"


class SweepKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where in a sweep the recording was made."""

    point: str | None = None
    launch: int | None = None
    arm: str | None = None
    pair: int | None = None
    order: int | None = None


class RecordingMeta(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The typed content of `recording.json`.

    source         who made the rows: lab, nsys, kineto, ...
    device         kind of device: sim, cpu, cuda, ...; on `cpu` everything that needs a GPU is not applicable
    modelled       device times come from a model; `calibration` names the file that its costs came from
    environment    the fingerprint of the machine (`registry.ENVIRONMENT_KEYS`)
    clocks         one entry for each clock_id in the rows
    configuration  the spec of the run, as plain JSON values
    history        upgrades and rescues that the files went through
    """

    source: str
    device: str
    modelled: bool = False
    calibration: str | None = None
    schema_version: int = SCHEMA_VERSION
    created: str = msgspec.field(default_factory=_now)
    environment: dict[str, Value] = {}
    clocks: tuple[ClockInfo, ...] = ()
    configuration: dict[str, Any] = {}
    process: ProcessKeys = ProcessKeys()
    sweep: SweepKeys | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    history: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.modelled and self.calibration is None:
            raise ValueError("modelled: a modelled recording names its calibration")
        check_environment(self.environment)
        for note in self.diagnostics:
            if note.table not in TABLES:
                raise ValueError(f"diagnostics: there is no table {note.table!r}")

    def with_diagnostics(self, *notes: Diagnostic) -> RecordingMeta:
        """The same with further notes; one that is there already is not repeated."""
        fresh = [note for note in dict.fromkeys(notes) if note not in self.diagnostics]
        return msgspec.structs.replace(self, diagnostics=(*self.diagnostics, *fresh))

    def with_history(self, *events: str) -> RecordingMeta:
        """The same with further events at the end of its history."""
        return msgspec.structs.replace(self, history=(*self.history, *events))

    def reason(self, table: str, column: str) -> str | None:
        """Why `column` is null where it is; None when nothing was noted."""
        reasons = [note.reason for note in self.diagnostics if (note.table, note.column) == (table, column)]
        return "; ".join(reasons) or None

    @property
    def lost_rows(self) -> bool:
        """Whether rows are missing that were recorded."""
        return any(note.reason.endswith(DROPPED) for note in self.diagnostics)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Why this is a part of what ran, or was to be recorded; nothing where it is whole."""
        reasons = [
            note.reason for note in self.diagnostics
            if (note.table, note.column) == ("steps", ROWS) or note.reason.endswith(DROPPED)
        ]  # fmt: skip
        return (*reasons, *(event for event in self.history if event.startswith(KILLED)))

    @property
    def has_device(self) -> bool:
        """Whether device work was recorded at all."""
        return self.device != "cpu"
