"""Stored results that the gate reads: files of ours in JSON, and folders of sweeps.

    {"schema": 1, "env": {"gpu": ...}, "metrics": {"period_p50_ns": 1895768}}           one result of one point
    {"schema": 1, "env": {...}, "points": {ID: {"status": "ok", "metrics": {...}}}}     one result of many points
    {"schema": 1, "results": [...]}                                                     a history of either
    DIR with plan.json and points/                                                      one result: a sweep of ours
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..analysis.gate.history import Result
from ..analysis.gate.matching import ONLY_POINT
from ..errors import UsageError
from .loading import read_text

SCHEMA = 1
_ENVIRONMENT = {"gpu_name": "gpu", "gpu_driver": "driver", "gpu_mig": "mig"}


def read_results(path: Path) -> list[Result]:
    """The results in `path`, in their order. UsageError names the file and the field that does not fit."""
    if path.is_dir():
        return [_sweep(path)]
    tree = _parsed(path)
    if tree.get("schema") != SCHEMA:
        raise UsageError(f"{path}: schema is {tree.get('schema')!r}; this version reads {SCHEMA}")
    if "results" not in tree:
        return [_result(tree, str(path))]
    results = tree["results"]
    if not isinstance(results, list) or not results:
        raise UsageError(f"{path}: results holds no list of results; store at least one")
    return [_result(_mapping(one, f"{path}: results[{index}]"), f"{path}: results[{index}]")
            for index, one in enumerate(results)]  # fmt: skip


def _parsed(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(read_text(path))
    except ValueError as error:
        raise UsageError(f"{path}: is not whole JSON ({error}); measure it again") from error
    return dict(_mapping(tree, str(path)))


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: holds {type(value).__name__}; expected a mapping of fields")
    return value


def _result(tree: Mapping[str, Any], where: str) -> Result:
    if tree.get("schema", SCHEMA) != SCHEMA:  # of a history: each result may say its own
        raise UsageError(f"{where}: schema is {tree['schema']!r}; this version reads {SCHEMA}")
    machine = _mapping(tree.get("env", {}), f"{where}: env")
    if ("points" in tree) == ("metrics" in tree):
        raise UsageError(f"{where}: holds {'both' if 'points' in tree else 'neither'} of points and metrics; give one")
    points = _mapping(tree.get("points", {ONLY_POINT: tree}), f"{where}: points")
    values: dict[tuple[str, str], float | None] = {}
    failures: dict[str, str] = {}
    for name, point in points.items():
        fields = _mapping(point, f"{where}: points.{name}")
        status = fields.get("status", "ok")
        if status != "ok":
            failures[name] = str(fields.get("reason") or status)
            continue
        metrics = _mapping(fields.get("metrics", {}), f"{where}: points.{name}.metrics")
        if not metrics:
            failures[name] = "no metrics"
        values |= {(name, metric): _number(value, f"{where}: {name}.{metric}") for metric, value in metrics.items()}
    return Result(dict(machine), values, failures)


def _number(value: object, where: str) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise UsageError(f"{where}: is {value!r}; expected a number, or null where nothing was measured")


def _sweep(folder: Path) -> Result:
    plan = _parsed(folder / "plan.json")
    points, machines = {}, []
    for point in plan.get("points", []):
        name = point.get("folder") or f"{point['slug']}--{point['id']}"
        path = folder / "points" / name
        if not (path / "summary.json").is_file():
            points[name] = {"status": "failed", "reason": "not measured"}
            continue
        points[name] = _parsed(path / "summary.json")
        meta = path / "recording" / "recording.json"
        if points[name].get("status") == "ok" and meta.is_file():
            machines.append(_machine(_parsed(meta)))
    if any(machine != machines[0] for machine in machines):
        raise UsageError(f"{folder}: its points were measured on different machines; measure them on one")
    return _result({"env": machines[0] if machines else {}, "points": points}, str(folder))


def _machine(meta: Mapping[str, Any]) -> dict[str, object]:
    """The environment of a recording under the gate's names. A modelled one is its own kind of GPU."""
    known = {_ENVIRONMENT.get(key, key): value for key, value in meta.get("environment", {}).items()}
    if meta.get("device") != "cuda":
        known["gpu"] = f"none ({meta.get('device')}, calibration {meta.get('calibration')})"
    return known
