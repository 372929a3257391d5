"""github-action-benchmark's own JSON, for its tool `customSmallerIsBetter`: less is better in all that is judged."""

from __future__ import annotations

from ...analysis.gate.result import GateResult
from ..jsonable import to_json
from .values import Value, values_of

_UNITS = {"1": "ratio", "us": "µs"}


def render_gab(result: GateResult) -> str:
    """The head's values as an array; names hold nothing that changes from run to run. Ends with a newline."""
    gpu = result.machine.get("gpu")
    verdicts = {(point.point, point.metric): point for point in result.suite.points}
    commit = [] if result.commit is None else [f"commit={result.commit}"]
    entries = []
    for value in values_of(result):
        found = verdicts.get((value.point, value.metric))
        facts = [] if found is None else [f"{found.verdict.value}: {found.reason.value}"]
        if found is not None and found.figures is not None:
            facts.append(f"n={found.figures.launches}")
        entries.append({**_entry(value), "extra": "\n".join([*facts, f"gpu={gpu or 'unknown'}", *commit])})
    return to_json(entries)


def _entry(value: Value) -> dict[str, object]:
    level = value.level
    reach = max(level.high - level.value, level.value - level.low)
    return {
        "name": f"{value.point} {value.metric}", "unit": _UNITS.get(value.unit, value.unit), "value": level.value,
        "range": f"± {reach:.6g}",
    }  # fmt: skip
