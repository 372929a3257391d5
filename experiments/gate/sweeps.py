"""A sweep's folder as one result of the gate: each point as its plan has it, or failed with the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...analysis.gate.fingerprint import no_gpu
from ...errors import UsageError
from ..plan import Point, parameters
from ..store import SUMMARY_VERSION, SweepStore
from ..strict_json import read_json

_ENVIRONMENT = {"gpu_name": "gpu", "gpu_driver": "driver", "gpu_mig": "mig"}


def sweep_tree(folder: Path) -> dict[str, Any]:
    """The sweep as the tree of a stored result: environment and points, by the names of their folders.

    The environment is empty, which is unknown, unless every point that ended well says its own. UsageError where points
    were measured on different machines, or the plan is none of ours.
    """
    read_json(folder / "plan.json")
    store = SweepStore.open(folder)
    points: dict[str, Mapping[str, Any]] = {}
    machines: list[dict[str, object]] = []
    for point in store.plan.points:
        points[point.folder] = found = _point(store, point)
        if found["status"] == "ok":
            machines.append(_machine_of(store.folder(point) / "recording" / "recording.json"))
    known = [machine for machine in machines if machine]
    if any(machine != known[0] for machine in known):
        raise UsageError(f"{folder}: its points were measured on different machines; measure them on one")
    return {"env": known[0] if known and len(known) == len(machines) else {}, "points": points}


def _point(store: SweepStore, point: Point) -> Mapping[str, Any]:
    path = store.folder(point) / "summary.json"
    if not path.is_file():
        return _failed("not measured")
    read_json(path)
    record = store.record(point)
    if record is None:
        return _failed("its summary.json is damaged, or another point's; measure it again")
    version = record.get("version")
    if type(version) is not int or version != SUMMARY_VERSION:
        return _failed(f"its summary.json has version {version!r}; this version reads {SUMMARY_VERSION}")
    if record["status"] != "ok":
        return _failed(record["reason"] or record["status"])
    if record.get("parameters") != json.loads(json.dumps(parameters(point.spec))):
        return _failed("the parameters in its summary.json are not the plan's; measure it again")
    return {"status": "ok", "metrics": record.get("metrics", {})}


def _failed(reason: str) -> dict[str, str]:
    return {"status": "failed", "reason": reason}


def _machine_of(path: Path) -> dict[str, object]:
    """The environment of a recording under the gate's names; empty without one. A modelled one is its own kind."""
    if not path.is_file():
        return {}
    meta = read_json(path)
    environment = meta.get("environment")
    if not isinstance(environment, dict) or not environment:
        return {}
    known: dict[str, object] = {str(_ENVIRONMENT.get(key, key)): value for key, value in environment.items()}
    if meta.get("device") != "cuda":
        known["gpu"] = no_gpu(meta.get("device"), meta.get("calibration"))
    return known
