"""Stored results that the gate reads: files of ours in JSON, and folders of sweeps.

    {"schema": 1, "env": {"gpu": ...}, "metrics": {"period_p50_ns": 1895768}}           one result of one point
    {"schema": 1, "env": {...}, "points": {ID: {"status": "ok", "metrics": {...}}}}     one result of many points
    {"schema": 1, "results": [...]}                                                     a history of either
    DIR with plan.json and points/                                                      one result: a sweep of ours
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...analysis.gate.history import Result
from ...analysis.gate.matching import ALL, ONLY_POINT
from ...errors import UsageError
from ..strict_json import LARGEST, check_schema, read_json
from .sweeps import sweep_tree

SCHEMA = 1


def read_results(path: Path) -> list[Result]:
    """The results in `path`, in their order. UsageError names the file and the field that does not fit."""
    if path.is_dir():
        return [_result(sweep_tree(path), str(path))]
    tree = read_json(path)
    check_schema(tree.get("schema"), SCHEMA, str(path))
    if "results" not in tree:
        return [_result(tree, str(path))]
    results = tree["results"]
    if not isinstance(results, list) or not results:
        raise UsageError(f"{path}: results holds no list of results; store at least one")
    return [_result(_mapping(one, f"{path}: results[{index}]"), f"{path}: results[{index}]")
            for index, one in enumerate(results)]  # fmt: skip


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: holds {type(value).__name__}; expected a mapping of fields")
    return value


def _result(tree: Mapping[str, Any], where: str) -> Result:
    check_schema(tree.get("schema", SCHEMA), SCHEMA, where)  # of a history: each result may say its own
    machine = _mapping(tree.get("env", {}), f"{where}: env")
    if ("points" in tree) == ("metrics" in tree):
        raise UsageError(f"{where}: holds {'both' if 'points' in tree else 'neither'} of points and metrics; give one")
    points = _mapping(tree.get("points", {ONLY_POINT: tree}), f"{where}: points")
    values: dict[tuple[str, str], float | None] = {}
    failures: dict[str, str] = {}
    for name, point in points.items():
        if name == ALL:
            raise UsageError(f"{where}: points.{name}: is the gate's own word for all points; name the point otherwise")
        fields = _mapping(point, f"{where}: points.{name}")
        status = fields.get("status", "ok")
        if status != "ok":
            failures[name] = str(fields.get("reason") or status)
            continue
        metrics = _mapping(fields.get("metrics", {}), f"{where}: points.{name}.metrics")
        if not metrics:
            failures[name] = "no metrics"
        values |= {(name, metric): number(value, f"{where}: {name}.{metric}") for metric, value in metrics.items()}
    return Result(dict(machine), values, failures)


def number(value: object, where: str) -> float | None:
    """A metric's value. UsageError, which names `where` (file, point and metric), for a text, a list, true or false."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        if isinstance(value, int) and abs(value) > LARGEST:
            raise UsageError(f"{where}: is a whole number of {value.bit_length()} bits; no time or count is so large")
        return value
    raise UsageError(f"{where}: is {value!r}; expected a number, or null where nothing was measured")
