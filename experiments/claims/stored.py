"""One run of the claims in one file: raw turns, the machine, the command. The file is what `docs/claims.md` comes from.

    {"version": 1, "command": "...", "date": "2026-11-30", "origin": "", "machine": {...}, "points": [
    {"claim": "E1", "cell": {"runner.table_width": 8192}, "arm": "first", "launch": 0, "reason": "", "visit": 4,
     "turns": [{"order": 0, "series": {"period_ns": [..]}, "pace": 1.02}, ..]},
    ..]}

A point a line; `visit` came later: 0 where it is absent. `origin` says what the times are of where they are no
measurement of a device (modelled, ...).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ...analysis.claims.points import ClaimPoint, Turn
from ...errors import UsageError
from ..files import make_writable, write_atomically
from ..loading import read_text

VERSION = 1


@dataclass(frozen=True, slots=True)
class ClaimRun:
    """`machine` is the identity of the worker that measured: GPU, driver, versions."""

    command: str
    date: str
    machine: Mapping[str, Any]
    points: tuple[ClaimPoint, ...]
    origin: str = ""
    version: int = field(default=VERSION)


def write_run(path: Path, run: ClaimRun) -> None:
    """Write the file. Raises UsageError where it cannot be written."""
    make_writable(path.parent)
    head = {
        "version": run.version, "command": run.command, "date": run.date, "origin": run.origin,
        "machine": dict(run.machine),
    }  # fmt: skip
    lines = [json.dumps(_plain(point), separators=(",", ":")) for point in run.points]
    text = json.dumps(head)[:-1] + ', "points": [\n' + ",\n".join(lines) + "\n]}\n"
    write_atomically(path, text)


def read_run(path: Path) -> ClaimRun:
    """The run in the file. Raises UsageError for what is none, or of a later version."""
    try:
        tree = json.loads(read_text(path))
        if not isinstance(tree, dict) or "points" not in tree or "version" not in tree:
            raise ValueError("no points in it")
        if tree["version"] != VERSION:
            raise UsageError(f"{path}: has version {tree['version']}, this stepscope reads {VERSION}; measure it again")
        return msgspec.convert(tree, ClaimRun)
    except (ValueError, msgspec.ValidationError) as error:
        told = f"{path}: is no stored run of claims ({error}); make one with perf claims SWEEP --store FILE"
        raise UsageError(told) from error


def _plain(point: ClaimPoint) -> dict[str, Any]:
    turns = [_turn(turn) for turn in point.turns]
    return {
        "claim": point.claim, "cell": dict(point.cell), "arm": point.arm, "launch": point.launch, "turns": turns,
        "reason": point.reason, "visit": point.visit,
    }  # fmt: skip


def _turn(turn: Turn) -> dict[str, Any]:
    found = {"order": turn.order, "series": {name: list(values) for name, values in turn.series.items()}}
    return found if turn.pace is None else {**found, "pace": turn.pace}
