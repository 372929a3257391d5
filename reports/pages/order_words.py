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
    "unknown": "what the order is worth was not measured",
}
_COPY = {
    "more": "without the copy more is saved than it takes (first - skip: {left}, |C|: {copy}): host work, or noise",
    "exposed": "the whole copy is exposed (first - skip: {left} of {copy}, {part})",
    "hidden": "the copy is hidden (first - skip: {left} of {copy}, {part})",
    "partly": "{left} of the copy's {copy} stay exposed ({part})",
    "unknown": "how much of the copy is exposed was not measured",
}


def order_words(paired: pd.DataFrame, varying: tuple[str, ...]) -> tuple[Words, ...]:
    """What each row of the paired arms says, led by the parameters that tell the rows apart."""
    found = []
    for at in range(len(paired)):
        values = {str(name): plain(paired[name].array[at]) for name in paired.columns}
        setting = ", ".join(f"{short(name)} {values[name]}" for name in varying if name in values)
        found.append(Words(f"{setting}: {sentence(order_verdict(values))}." if setting else _capital(values)))
    return tuple(found)


def sentence(verdict: OrderVerdict) -> str:
    """Both halves of the verdict."""
    part = verdict.exposed_share
    shown = {
        "gain": _time(verdict.last_minus_first_ns), "left": _time(verdict.first_minus_skip_ns),
        "copy": _time(verdict.copy_ns), "part": "-" if part is None else percent(part),
    }
    return f"{_ORDER[verdict.order].format(**shown)}; {_COPY[verdict.copy].format(**shown)}"


def _capital(values: dict[str, object]) -> str:
    text = sentence(order_verdict(values))
    return f"{text[0].upper()}{text[1:]}."


def _time(value_ns: float | None) -> str:
    return "-" if value_ns is None else duration(value_ns)
