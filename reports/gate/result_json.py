"""A gate's result as JSON, for machines: `gate.json`.

    {"schema": 1, "kind": "paired", "verdict": "FAIL", "exit_code": 1, "reasons": [...], "base": ..., "head": ...,
     "machine": {...}, "notes": [...], "commit": head's or null, "time": ISO 8601 or null,
     "points": [{"point", "metric", "unit", "verdict", "reason", "stage", "detail", "holm_p", "effect", "low", "high",
                 "least_effect", "p_slower", "launches", "dropped_pairs", "order_effect",
                 "base": {"value", "low", "high", "values": [...]} | null, "head": ... | null,
                 "effects": [...], "fresh_effects": [...]}],
     "geomeans": [{"metric", "effect", "low", "high", "points", "verdict", "reason"}],
     "beside": [{"point", "metric", "unit", "effect", "low", "high", "launches", "base", "head"}]}    not gated

Effects are fractions (0.05: head takes 5 % longer), `effects` logarithms by launch; null is what is not known.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from ...analysis.gate.beside import Beside
from ...analysis.gate.point import Figures, PointVerdict
from ...analysis.gate.result import GateResult, Level, Levels, unit_of
from ..jsonable import to_json

SCHEMA = 1
_NO_FIGURES = {field.name: None for field in fields(Figures)}


def render_result(result: GateResult) -> str:
    """`result` as strict JSON; ends with a newline."""
    suite = result.suite
    return to_json({
        "schema": SCHEMA, "kind": result.kind, "verdict": suite.verdict.value, "exit_code": suite.exit_code,
        "reasons": [reason.value for reason in suite.reasons], "base": result.base, "head": result.head,
        "machine": dict(result.machine), "notes": list(result.notes), "commit": result.commit, "time": result.time,
        "points": [_point(point, result) for point in suite.points],
        "geomeans": [
            {"metric": metric, **asdict(found), "verdict": found.verdict.value, "reason": found.reason.value}
            for metric, found in suite.geomeans.items()
        ],
        "beside": [_beside(one, result) for one in result.beside],
    })  # fmt: skip


def _beside(one: Beside, result: GateResult) -> dict[str, Any]:
    levels = result.levels.get((one.point, one.metric), Levels(None, None))
    return {**asdict(one), "unit": unit_of(one.metric), "base": _level(levels.base), "head": _level(levels.head)}


def _point(point: PointVerdict, result: GateResult) -> dict[str, Any]:
    name = point.point, point.metric
    levels = result.levels.get(name, Levels(None, None))
    return {
        "point": point.point, "metric": point.metric, "unit": unit_of(point.metric), "verdict": point.verdict.value,
        "reason": point.reason.value, "stage": point.stage, "detail": point.detail,
        "holm_p": result.suite.holm_p.get(name),
        **(_NO_FIGURES if point.figures is None else asdict(point.figures)),
        "base": _level(levels.base), "head": _level(levels.head),
        "effects": list(point.effects), "fresh_effects": list(point.fresh_effects),
    }  # fmt: skip


def _level(level: Level | None) -> dict[str, Any] | None:
    return None if level is None else asdict(level)
