"""Bencher Metric Format: benchmark → measure → value with its bounds. Bencher keeps units at the measure.

The unit stands in the measure's name for that reason ("period-p50-ns"): a measure never changes its unit unseen.
"""

from __future__ import annotations

from ...analysis.gate.result import GateResult
from ..jsonable import to_json
from .characters import shortened
from .values import values_of

NAME_MAX = 1024
MEASURE_MAX = 64


def render_bmf(result: GateResult) -> str:
    """The head's values as strict JSON; bounds are the smallest and largest launch. Ends with a newline."""
    tree: dict[str, dict[str, dict[str, float]]] = {}
    for value in values_of(result):
        name = shortened(value.point.strip() or "(no name)", NAME_MAX)
        level = value.level
        tree.setdefault(name, {})[measure(value.metric)] = {
            "value": level.value, "lower_value": level.low, "upper_value": level.high,
        }  # fmt: skip
    return to_json(tree)


def measure(metric: str) -> str:
    """The measure's name, at most 64 characters: "period_p50_ns" → "period-p50-ns"."""
    return shortened(metric.replace("_", "-").strip() or "(no name)", MEASURE_MAX)
