"""Commit orders side by side, in words: one sentence a setting."""

from __future__ import annotations

import pandas as pd

from ...analysis.order_verdict import OrderVerdict, order_verdict
from ...analysis.tables import plain
from ..document import Words
from ..formatting import duration, percent
from ..views.axes import short

_ORDER = {
    "worth": "committing first instead of last saves {gain}",
    "worth_nothing": "the order is worth nothing (last - first: {gain})",
    "backwards": "committing first costs more than committing last ({gain})",
    "unresolved": "what the order is worth is not resolved (last - first: {gain})",
    "unknown": "what the order is worth was not measured",
}
_COPY = {
    "more": "without the copy more is saved than it takes (first - skip: {left}, |C|: {copy}): host work, or noise",
    "exposed": "the whole copy is exposed (first - skip: {left} of {copy}, {part})",
    "hidden": "the copy is hidden (first - skip: {left} of {copy}, {part})",
    "partly": "{left} of the copy's {copy} stay exposed ({part})",
    "call": (
        "without the copy {left} are saved (first - skip), most of it the host's call for it ({call} by the replay) and"
        " not the copy's {copy}"
    ),
    "unresolved": "how much of the copy is exposed is not resolved (first - skip: {left}, |C|: {copy})",
    "unknown": "how much of the copy is exposed was not measured",
}


NO_VERDICT = (
    "such runs differ by more than an order is worth, so their differences have no interval and no verdict;"
    " --param interleave=commit_order lets the orders take turns in one process"
)


def order_words(paired: pd.DataFrame, varying: tuple[str, ...]) -> tuple[Words, ...]:
    """What each row of arms that took turns says, led by the parameters that tell the rows apart.

    Arms that are separate runs differ by more than their orders do, and nobody knows by how much: no verdict on them.
    """
    found, apart = [], 0
    for at in range(len(paired)):
        values = {str(name): plain(paired[name].array[at]) for name in paired.columns}
        if values.get("launches") is None:
            apart += 1
            continue
        setting = ", ".join(f"{short(name)} {values[name]}" for name in varying if name in values)
        said = f"{sentence(order_verdict(values))}; {_interval(values)}"
        found.append(Words(f"{setting}: {said}." if setting else f"{said[0].upper()}{said[1:]}."))
    if apart:
        of = f"Of {apart} of {len(paired)}" if apart < len(paired) else f"Of all {apart}"
        found.append(Words(f"{of} settings the orders are separate runs: {NO_VERDICT}."))
    return tuple(found)


def _interval(values: dict[str, object]) -> str:
    """95 % of both differences over launches, or why there is none."""
    launches, parts = values["launches"], []
    for name, words in (("last_minus_first", "last - first"), ("first_minus_skip", "first - skip")):
        low, high = values.get(f"{name}_low_ns"), values.get(f"{name}_high_ns")
        if isinstance(low, int | float) and isinstance(high, int | float):
            parts.append(f"{words} {duration(low)} to {duration(high)}")
    if not parts:
        return f"no interval: n = {launches} launch"
    return f"95 % over n = {launches} launches: {', '.join(parts)}"


def sentence(verdict: OrderVerdict) -> str:
    """Both halves of the verdict."""
    part = verdict.exposed_share
    shown = {
        "gain": _time(verdict.last_minus_first_ns), "left": _time(verdict.first_minus_skip_ns),
        "copy": _time(verdict.copy_ns), "call": _time(verdict.call_ns), "part": "-" if part is None else percent(part),
    }
    return f"{_ORDER[verdict.order].format(**shown)}; {_COPY[verdict.copy].format(**shown)}"


def _time(value_ns: float | None) -> str:
    return "-" if value_ns is None else duration(value_ns)
