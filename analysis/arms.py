"""The counterfactual, measured: points that differ only in the commit order, subtracted from one another.

    exposed by measurement  = first - skip     (skip: the table is unchanged and resident, no copy is made)
    hidden by order         = last - first     (what committing before index building is worth)
    check, synchronous scheduling: last - skip = |C|
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import pandas as pd

from .stats import Number, exact
from .summary import Summary
from .tables import records

ORDER = "runner.commit_order"
ARMS = ("first", "last", "skip")
FIGURES = (
    "first_ns", "last_ns", "skip_ns", "last_minus_first_ns", "first_minus_skip_ns", "last_minus_skip_ns", "copy_ns",
    "unexplained_ns", "exposed_step_ns",
)


@dataclass(frozen=True, slots=True)
class ArmPoint:
    """One point of a sweep: its parameters by dotted path, and its figures. Its repeat may be one of the parameters."""

    name: str
    parameters: Mapping[str, object]
    summary: Summary


def pair_orders(points: Iterable[ArmPoint], order: str = ORDER, metric: str = "period_p50_ns") -> pd.DataFrame:
    """A row for each setting of the other parameters that has at least two of the orders first, last, skip.

    Columns: one for each other parameter (as text, JSON where it is not a string), then
    first_ns, last_ns, skip_ns    `metric` of the arm (the mean where several points have equal parameters)
    last_minus_first_ns           hidden by order
    first_minus_skip_ns           exposed, measured
    last_minus_skip_ns            should be |C| under synchronous scheduling
    copy_ns                       |C| of arm first, else last
    unexplained_ns                last_minus_skip_ns - copy_ns
    exposed_step_ns               exposed in arm first by the replay, to hold against first_minus_skip_ns
    Null where an arm is missing or has no such figure.
    """
    groups: dict[tuple[tuple[str, str], ...], dict[str, list[ArmPoint]]] = {}
    for point in points:
        arm = point.parameters.get(order)
        if arm in ARMS:
            rest = tuple((name, _text(value)) for name, value in sorted(point.parameters.items()) if name != order)
            groups.setdefault(rest, {}).setdefault(str(arm), []).append(point)
    paired = {rest: arms for rest, arms in groups.items() if len(arms) > 1}
    names = dict.fromkeys(name for rest in paired for name, _ in rest)
    rows = [{**dict(rest), **_figures(arms, metric)} for rest, arms in paired.items()]
    return records(rows, {**dict.fromkeys(names, "string"), **dict.fromkeys(FIGURES, "Float64")})


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _figures(arms: Mapping[str, list[ArmPoint]], metric: str) -> dict[str, Number | None]:
    period = {arm: _mean(arms.get(arm, []), metric) for arm in ARMS}
    copy = _mean(arms.get("first") or arms.get("last") or [], "table_copy_p50_ns")
    last_minus_skip = _minus(period["last"], period["skip"])
    found = {
        "first_ns": period["first"], "last_ns": period["last"], "skip_ns": period["skip"],
        "last_minus_first_ns": _minus(period["last"], period["first"]),
        "first_minus_skip_ns": _minus(period["first"], period["skip"]),
        "last_minus_skip_ns": last_minus_skip, "copy_ns": copy, "unexplained_ns": _minus(last_minus_skip, copy),
        "exposed_step_ns": _mean(arms.get("first", []), "exposed_step_ns"),
    }
    return {name: None if value is None else exact(value) for name, value in found.items()}


def _mean(points: list[ArmPoint], metric: str) -> Fraction | None:
    values = [point.summary.metrics.get(metric) for point in points]
    known = [Fraction(value) for value in values if value is not None]
    return sum(known, Fraction(0)) / len(known) if known and len(known) == len(values) else None


def _minus(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    return None if left is None or right is None else left - right
