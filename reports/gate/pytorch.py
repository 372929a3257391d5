"""PyTorch's benchmark data base, records of version 3: one metric a record.

The uploader adds runners, dependencies, repository and commit. Every `extra_info` is text to text there.
"""

from __future__ import annotations

from typing import Any

from ...analysis.gate.result import GateResult, Level
from ..jsonable import to_json
from .values import Value, values_of

_DTYPES = ("dtype", "model_dtype")


def render_pytorch(result: GateResult) -> str:
    """The head's values, one for each launch, as records; the base's are their targets. Ends with a newline."""
    bases = {(value.point, value.metric): value.level for value in values_of(result, ("base",))}
    verdicts = {(point.point, point.metric): point.verdict.value for point in result.suite.points}
    return to_json([
        _record(value, bases.get(name := (value.point, value.metric)), result, verdicts.get(name, ""))
        for value in values_of(result)
    ])  # fmt: skip


def _record(value: Value, base: Level | None, result: GateResult, verdict: str) -> dict[str, Any]:
    level = value.level
    metric: dict[str, Any] = {"name": value.metric, "benchmark_values": list(level.values or (level.value,))}
    if base is not None:  # left out where there is none: 0 would be a target, too
        metric["target_value"] = base.value
    extra = {"unit": value.unit, "low": repr(level.low), "high": repr(level.high), "verdict": verdict}
    machine = result.machine
    said = (("commit", result.commit), ("time", result.time))
    when = {name: text for name, text in said if text is not None}
    return {
        "benchmark": {
            "name": "stepscope gate", "mode": "inference",
            "dtype": next((str(machine[key]) for key in _DTYPES if machine.get(key)), ""),
            "extra_info": {
                "point": value.point, "kind": result.kind, "gpu": str(machine.get("gpu") or "unknown"), **when,
            },
        },
        "model": {
            "name": str(machine.get("model") or "unknown"), "type": "model runner step",
            "backend": str(machine.get("engine") or "stepscope"), "origins": [], "extra_info": {},
        },
        "metric": {**metric, "extra_info": extra},
    }  # fmt: skip
