"""The counterfactual, measured: points that differ only in the commit order, subtracted from one another.

    exposed by measurement  = first - skip     (skip: the table is unchanged and resident, no copy is made)
    hidden by order         = last - first     (what committing before index building is worth)
    check, synchronous scheduling: last - skip = |C|

An arm without the copy is also spared the host's call. So the replay's answer to hold against first - skip is
`commit_step_ns` (neither copy nor call), and `exposed_step_ns` (the copy takes no time) is the part on the device: 0 on
a host that hides the copy, while the arms differ by what the call costs.
Points that took turns block by block (`blocks`) are compared within their launches; others by what a step takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import pandas as pd

from .blocks import Block, Interval, Launches, compare, over_launches
from .pace import PACE, PERIOD, pipelined
from .stats import Number, exact
from .summary import Summary
from .tables import records

ORDER = "runner.commit_order"
EVENTS = "measure.device_events"
ARMS = ("first", "last", "skip")
COPYING = ("first", "last")
COPIES = ("table_copy_queued_ns", "table_copy_p50_ns")
"""Figures of |C|, neither of which reads short."""
DIFFERENCES = {
    "last_minus_first": ("last", "first"), "first_minus_skip": ("first", "skip"), "last_minus_skip": ("last", "skip"),
}
FIGURES = (
    "first_ns", "last_ns", "skip_ns",
    *(f"{name}{bound}_ns" for name in DIFFERENCES for bound in ("", "_low", "_high")),
    "copy_ns", "unexplained_ns", "copy_share", "copy_share_low", "copy_share_high", "exposed_step_ns", "commit_step_ns",
)


Rest = tuple[tuple[str, str], ...]
"""The parameters beside the order, by name, as text."""


@dataclass(frozen=True, slots=True)
class ArmPoint:
    """One point of a sweep: its parameters by dotted path, and its figures. Its repeat may be one of the parameters.

    launch, blocks   of points that were measured side by side: the launch they have in common, and their turns
    """

    name: str
    parameters: Mapping[str, object]
    summary: Summary
    launch: int = 0
    blocks: tuple[Block, ...] = field(default=())


def pair_orders(points: Iterable[ArmPoint], order: str = ORDER) -> pd.DataFrame:
    """A row for each setting of the other parameters that has at least two of the orders first, last, skip.

    Columns: one for each other parameter (as text, JSON where it is not a string), then
    launches                      in which the arms took turns; null where they are separate runs
    first_ns, last_ns, skip_ns    the arm's pace where one of them is pipelined, else its median period (the mean where
                                  several points have equal parameters)
    last_minus_first_ns           hidden by order
    first_minus_skip_ns           exposed, measured
    last_minus_skip_ns            should be |C| under synchronous scheduling
    X_low_ns, X_high_ns           of each of the three, 95 % over launches; null with fewer than two
    copy_ns                       |C|, the least of what arms first and last say: of events around their copies, which
                                  read long where a copy finds its stream idle, and of copies behind other work, whose
                                  memory may lie farther away; nothing makes a copy shorter than it is. Of arms without
                                  events: what the equal ones with events say
    unexplained_ns                last_minus_skip_ns - copy_ns
    copy_share, _low, _high       last_minus_skip / |C|, by launch
    exposed_step_ns, commit_step_ns   by the replay in arm first: copy free, copy and call free
    Null where an arm is missing or has no such figure.
    """
    groups: dict[Rest, dict[str, list[ArmPoint]]] = {}
    for point in points:
        arm = point.parameters.get(order)
        if arm in ARMS:
            rest = tuple((name, _text(value)) for name, value in sorted(point.parameters.items()) if name != order)
            groups.setdefault(rest, {}).setdefault(str(arm), []).append(point)
    paired = {rest: arms for rest, arms in groups.items() if len(arms) > 1}
    names = dict.fromkeys(name for rest in paired for name, _ in rest)
    rows = [{**dict(rest), **_figures(arms, _with_events(rest, groups))} for rest, arms in paired.items()]
    return records(rows, {
        **dict.fromkeys(names, "string"), "launches": "Int64", **dict.fromkeys(FIGURES, "Float64"),
    })


def _with_events(rest: Rest, groups: Mapping[Rest, dict[str, list[ArmPoint]]]) -> dict[str, list[ArmPoint]]:
    """The arms with these other parameters whose copies were timed."""
    timed = tuple((name, "true" if name == EVENTS else value) for name, value in rest)
    return groups.get(timed, {})


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _figures(
    arms: Mapping[str, list[ArmPoint]], timed: Mapping[str, list[ArmPoint]]
) -> dict[str, Number | None]:
    metric = PACE if _pipelined(arms) else PERIOD
    period = {arm: _mean(arms.get(arm, []), metric) for arm in ARMS}
    copy = _copy(timed)
    found: dict[str, Fraction | None] = {f"{arm}_ns": value for arm, value in period.items()}
    for name, (left, right) in DIFFERENCES.items():
        found[f"{name}_ns"] = _minus(period[left], period[right])
    in_turns = _in_turns(arms, timed)
    if in_turns is None:
        share = found["last_minus_skip_ns"]
        found["copy_share"] = share / copy if share is not None and copy else None
    else:
        found.update(in_turns)
    found |= {
        "copy_ns": copy, "unexplained_ns": _minus(found["last_minus_skip_ns"], copy),
        "exposed_step_ns": _mean(arms.get("first", []), "exposed_step_ns"),
        "commit_step_ns": _mean(arms.get("first", []), "commit_step_ns"),
    }
    return {name: None if value is None else exact(value) for name, value in found.items()}


def _pipelined(arms: Mapping[str, list[ArmPoint]]) -> bool:
    """Whether steps of any point are, and all have a pace."""
    metrics = [point.summary.metrics for points in arms.values() for point in points]
    return any(map(pipelined, metrics)) and all(one.get(PACE) is not None for one in metrics)


def _in_turns(
    arms: Mapping[str, list[ArmPoint]], timed: Mapping[str, list[ArmPoint]]
) -> dict[str, Fraction | None] | None:
    """Differences and shares of arms that took turns; None unless all their points have blocks."""
    if not all(point.blocks for points in arms.values() for point in points):
        return None
    blocks: dict[str, Launches] = {
        arm: {point.launch: point.blocks for point in points} for arm, points in arms.items()
    }
    found: dict[str, Fraction | None] = {}
    by_launch = {
        name: compare(blocks.get(left, {}), blocks.get(right, {})) for name, (left, right) in DIFFERENCES.items()
    }
    for name, values in by_launch.items():
        found |= _columns(over_launches(list(values.values())), name, "_ns")
    copies = _copies(timed)
    shares = [
        value / float(copies[launch]) for launch, value in by_launch["last_minus_skip"].items() if launch in copies
    ]
    found |= _columns(over_launches(shares), "copy_share", "")
    found["launches"] = Fraction(max((len(values) for values in by_launch.values()), default=0))
    return found


def _copies(arms: Mapping[str, list[ArmPoint]]) -> dict[int, Fraction]:
    """Launch -> |C|, of launches in which it was measured; see `pair_orders`."""
    launches: dict[int, dict[str, list[ArmPoint]]] = {}
    for arm, points in arms.items():
        for point in points:
            launches.setdefault(point.launch, {}).setdefault(arm, []).append(point)
    found = {launch: _copy(its_arms) for launch, its_arms in launches.items()}
    return {launch: copy for launch, copy in found.items() if copy}


def _copy(arms: Mapping[str, list[ArmPoint]]) -> Fraction | None:
    found = [_mean(arms.get(arm, []), metric) for metric in COPIES for arm in COPYING]
    return min((value for value in found if value is not None), default=None)


def _columns(interval: Interval | None, name: str, unit: str) -> dict[str, Fraction | None]:
    values = (None, None, None) if interval is None else (interval.mean, interval.low, interval.high)
    return {
        f"{name}{bound}{unit}": None if value is None else Fraction(value)
        for bound, value in zip(("", "_low", "_high"), values, strict=True)
    }


def _mean(points: list[ArmPoint], metric: str) -> Fraction | None:
    values = [point.summary.metrics.get(metric) for point in points]
    known = [Fraction(value) for value in values if value is not None]
    return sum(known, Fraction(0)) / len(known) if known and len(known) == len(values) else None


def _minus(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    return None if left is None or right is None else left - right
