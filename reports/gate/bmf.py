"""Bencher Metric Format: benchmark → measure → value with its bounds. Bencher keeps units at the measure.

A measure is named as the metric for that reason, unit and all ("period_p50_ns"): it never changes its unit unseen.
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
        level = value.level
        tree.setdefault(_name(value.point, NAME_MAX), {})[_name(value.metric, MEASURE_MAX)] = {
            "value": level.value, "lower_value": level.low, "upper_value": level.high,
        }  # fmt: skip
    return to_json(tree)


def _name(text: str, limit: int) -> str:
    """`text` within Bencher's limit; a blank one in quotes, since a name may not be empty."""
    return shortened(text if text.strip() else repr(text), limit)
