"""A/A calibrations on disk: one file a machine, one entry for each point and metric, each with its day and its blocks.

    {"schema": 1, "machine": {...}, "entries": [{"point": "regime=steady", "work": "3f9c...", "metric": "period_p50_ns",
     "sd": 0.0042, "launches": 20, "pairs": 6, "block_steps": 50, "measured_on": "2026-11-30", "launch_s": 8.1,
     "offset": 0.0, "memory": 1.0}]}
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from ...analysis.gate.block_values import PACE, PERIOD, step_time
from ...analysis.gate.calibration import Calibration, unusable
from ...analysis.gate.equal_arms import EqualArms
from ...analysis.gate.fingerprint import IDENTITY
from ...analysis.gate.limits import Limits
from ...analysis.gate.verdict import Reason
from ...errors import UsageError
from ..files import make_writable, write_atomically
from ..loading import read_text
from .same_work import RUNNER_WORK

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """How much equal arms differ between launches (`sd`, log) in `metric` of a point; `work`: see `work_of`.

    offset     what equal arms differ by in the mean, where that is sure; `memory`: see `EqualArms`
    launch_s   what a launch took for this point, in the mean; None in files of earlier versions
    """

    point: str
    work: str
    metric: str
    sd: float
    launches: int
    pairs: int
    block_steps: int
    measured_on: date
    launch_s: float | None = None
    offset: float = 0.0
    memory: float = 1.0

    @property
    def equal(self) -> EqualArms:
        """For the floor."""
        return EqualArms(self.sd, self.launches, self.offset, self.memory)


@dataclass(frozen=True, slots=True)
class Book:
    """What is known of one machine. `path`: where it lies or would lie."""

    path: Path
    machine: Mapping[str, Any]
    entries: tuple[Entry, ...] = ()

    def spread(
        self, point: str, work: str, metric: str, now: tuple[Mapping[str, Any], int, int, date], limits: Limits
    ) -> EqualArms | Reason:
        """For a gate that runs as `now` says: machine, pairs, steps of a block, day. Or why there is none."""
        machine, pairs, steps, today = now
        known_of = {e.metric: e for e in self.entries if (e.point, e.work) == (point, work)}
        entry = known_of.get(metric)
        if entry is None:  # of a version that took single periods for the pace of pipelined steps
            return Reason.CALIBRATION_NO_PACE if metric == PACE and PERIOD in known_of else Reason.NO_CALIBRATION
        known = Calibration(entry.equal, entry.measured_on, self.machine)
        reason = unusable(known, machine, today, limits)
        if reason is None and (entry.pairs, entry.block_steps) != (pairs, steps):
            reason = Reason.CALIBRATION_OTHER_BLOCKS
        return entry.equal if reason is None else reason

    def step_time(self, point: str, work: str) -> str:
        """By which metric it knows what a step of the point takes."""
        return step_time([e.metric for e in self.entries if (e.point, e.work) == (point, work)])

    def with_entries(self, fresh: Iterable[Entry]) -> Book:
        """The book with `fresh`; what it said of the same points before is gone."""
        added = tuple(fresh)
        replaced = {(entry.point, entry.work) for entry in added}
        kept = [entry for entry in self.entries if (entry.point, entry.work) not in replaced]
        return Book(self.path, self.machine, (*kept, *added))

    def save(self) -> None:
        """Write it."""
        make_writable(self.path.parent)
        tree = {"schema": SCHEMA, "machine": self.machine, "entries": [asdict(entry) for entry in self.entries]}
        write_atomically(self.path, json.dumps(tree, indent=1, default=str) + "\n")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int
    machine: dict[str, Any]
    entries: tuple[Entry, ...]


def work_of(tree: Mapping[str, Any]) -> str:
    """Digest of what makes a point the same work: its requests, what is computed of them, the device that is modelled.

    `tree` is the point as the spec says it: what a version of the code makes of it gets new fields with every version.
    """
    named = {name: tree.get(name) for name in ("workload", "device", "calibration", "cost_model")}
    runner = tree.get("runner") or {}
    named["runner"] = {name: runner[name] for name in RUNNER_WORK if name in runner}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:12]


def identity_of(machine: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an environment that make it this machine."""
    return {field: machine[field] for field in IDENTITY if machine.get(field) is not None}


def open_book(machine: Mapping[str, Any], path: Path | None = None) -> Book:
    """The calibrations in `path`, else those of this machine in the user's cache; empty where there are none."""
    identity = identity_of(machine)
    if path is None:
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:12]
        path = _cache() / "gate" / f"{digest}.json"
    return read_book(path) if path.is_file() else Book(path, identity)


def books(path: Path | None = None) -> list[Book]:
    """The calibrations in `path` (none where it does not exist), else all in the user's cache, the newest first."""
    if path is not None:
        return [read_book(path)] if path.is_file() else []
    found = sorted(_cache().glob("gate/*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    kept: list[Book] = []
    for file in found:
        with contextlib.suppress(UsageError):  # a damaged one is told when it turns out to be this machine's
            kept.append(read_book(file))
    return kept


def read_book(path: Path) -> Book:
    """UsageError that names the file when it is none of ours."""
    try:
        found = msgspec.json.decode(read_text(path).encode(), type=_File)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: is no calibration of the gate ({error}); run perf gate calibrate again") from error
    if found.schema != SCHEMA:
        raise UsageError(f"{path}: schema is {found.schema}; this version reads {SCHEMA}; calibrate again")
    return Book(path, found.machine, found.entries)


def _cache() -> Path:
    chosen = os.environ.get("STEPSCOPE_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "stepscope"
