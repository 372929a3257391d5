"""The four questions, answered over all points of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pandas as pd

from ...analysis.pace import PACE, PERIOD
from ...analysis.tables import floats
from ..document import Cell, Missing, Quantity, Section
from ..formatting import count, duration, percent
from ..metrics import unit_of
from ..views.axes import GRAPH_MODE, extreme, number_of, setting
from ..views.sweep import SweepPoint, SweepView
from ..views.turns import Turns, in_turns
from .headline import answer

_PHASES = ("preprocess", "forward", "sample", "between_steps")


def sweep_headline(sweep: SweepView, paired: pd.DataFrame) -> Section:
    """`paired` are the commit orders side by side, as `analysis.arms.pair_orders` gives them."""
    steps = (PERIOD, PACE) if sweep.paced else (PERIOD,)
    answers = (
        answer(0, _time(sweep), _spans(sweep, *steps, "preprocess_share", "host_bound_share"), "#metrics"),
        answer(1, _copy(sweep, paired), _spans(sweep, "exposed_p50_ns", "hidden_p50_ns", "exposed_step_ns"),
               "#exposure"),
        answer(2, _pinned(sweep), _spans(sweep, "hazards_observed", "hazards_possible", "async_pageable"),
               "#points"),
        answer(3, _padding(sweep), _spans(sweep, "padding_token_share", "padding_time_mean_ns"), "#points"),
    )
    return Section("headline", "Four questions", answers, brief=True)


def _known(sweep: SweepView, metric: str) -> list[float]:
    return [float(value) for point in sweep.measured if (value := point.metrics.get(metric)) is not None]


def _range(known: list[float], write: Callable[[float], str]) -> str:
    """"8 % to 63 %", or one figure where both ends read the same."""
    low, high = write(min(known)), write(max(known))
    return low if low == high else f"{low} to {high}"


def _why_not(sweep: SweepView, metric: str) -> str:
    reasons = Counter(point.reasons[metric] for point in sweep.measured if metric in point.reasons)
    return reasons.most_common(1)[0][0] if reasons else "no point has it"


def _spans(sweep: SweepView, *metrics: str) -> tuple[tuple[str, Cell], ...]:
    """Smallest to largest value of each metric over the points."""
    cells: list[tuple[str, Cell]] = []
    for metric in metrics:
        known, unit = _known(sweep, metric), unit_of(metric)
        title = metric.removesuffix("_ns").replace("_", " ")
        if not known:
            cells.append((title, Missing(_why_not(sweep, metric))))
        elif min(known) == max(known):
            cells.append((f"{title}, every point", Quantity(known[0], unit)))
        else:
            cells += [(f"{title}, least", Quantity(min(known), unit)), (f"{title}, most", Quantity(max(known), unit))]
    return tuple(cells)


def _time(sweep: SweepView) -> str:
    metric, told = (PACE, "paces") if sweep.paced else (PERIOD, "median periods")
    steps = _known(sweep, metric)
    if not steps:
        return f"Not measured: {_why_not(sweep, metric)}."
    spans = [
        f"{name.replace('_', ' ')} {_range(known, percent)}"
        for name in _PHASES if (known := _known(sweep, f"{name}_share"))
    ]
    bound = _known(sweep, "host_bound_share")
    hosts = (
        f" At {sum(value > 0.5 for value in bound)} of {len(bound)} points most forwards waited for the host"
        " (host-bound)."
    ) if bound else ""
    shares = f" Host time by phase: {', '.join(spans)}." if spans else ""
    return (
        f"Over {count(len(sweep.measured))} points a step takes {_range(steps, duration)}"
        f" ({told}).{shares}{hosts}"
    )


def _amount(point: SweepPoint, metric: str) -> str:
    return duration(number_of(point, metric))


def _copy(sweep: SweepView, paired: pd.DataFrame) -> str:
    worst = extreme(sweep, "exposed_p50_ns", max)
    if worst is None:
        return f"Not measured: {_why_not(sweep, 'exposed_p50_ns')}."
    told = [point for point in sweep.measured if point.metrics.get("exposed_p50_ns") is not None]
    copies = [float(value) for point in told if (value := point.metrics.get("table_copy_p50_ns")) is not None]
    hidden = sum(number_of(point, "exposed_p50_ns") == 0 for point in told)
    of = "" if len(told) == len(sweep.measured) else f" where it can be told (of {len(sweep.measured)})"
    where = f"{len(told)} points{of}"
    if hidden == len(told):
        lengths = f" of {_range(copies, duration)}" if copies else ""
        return f"In all {where} the copy is hidden completely: copies{lengths}.{_untold(sweep)}{_order(paired)}"
    copy = worst.metrics.get("table_copy_p50_ns")
    of = f" of {duration(copy)}" if copy is not None else ""
    head = f"At worst {_amount(worst, 'exposed_p50_ns')}{of} are exposed ({setting(sweep, worst)})."
    full = f" In {hidden} of the {where} it is hidden completely."
    return f"{head}{full}{_untold(sweep)}{_order(paired)}"


def _untold(sweep: SweepView) -> str:
    """Why the exposure is not known at the other points, if there are some."""
    untold = sum(point.metrics.get("exposed_p50_ns") is None for point in sweep.measured)
    if not untold:
        return ""
    where = "At the other point" if untold == 1 else f"At the other {count(untold)} points"
    return f" {where} it cannot be told, mostly because: {_why_not(sweep, 'exposed_p50_ns')}."


def _order(paired: pd.DataFrame) -> str:
    """What the order is worth, from arms that took turns; of separate runs only that they cannot tell."""
    _, known = floats(paired, "last_minus_first_ns")
    if not known.any():
        return ""
    (low, has_low), (high, has_high) = (floats(paired, f"last_minus_first_{bound}_ns") for bound in ("low", "high"))
    judged = known & has_low & has_high
    if not judged.any():
        return (
            " What the commit order is worth, separate runs or a single launch do not tell: its orders have to take"
            f" turns in one process, in several launches ({_turns('commit_order')})."
        )
    means = floats(paired, "last_minus_first_ns")[0]
    turns = [(float(means[at]), float(low[at]), float(high[at])) for at in range(len(paired)) if judged[at]]
    return _effect("Orders", "committing the table last instead of first", turns)


def _turns(axis: str) -> str:
    """How to let the values of `axis` take turns; what takes 2 minutes as separate runs may take an hour so."""
    return (
        f"--param interleave={axis.removeprefix('runner.')} --param repeats=5; each launch has a process of its own, so"
        " choose few settings: --dry-run tells how long it takes"
    )


def _effect(arms: str, change: str, turns: list[tuple[float, float, float]]) -> str:
    """What `change` does to the period, of each setting's mean, low and high in ns: 95 % intervals over launches."""
    moved = {
        "lengthens": [mean for mean, low, _ in turns if low > 0],
        "shortens": [-mean for mean, _, high in turns if high < 0],
    }
    parts = [f"{verb} it in {len(times)} ({_range(times, duration)})" for verb, times in moved.items() if times]
    unresolved = len(turns) - sum(map(len, moved.values()))
    said = f"{change} {', '.join(parts)}".replace(" it ", " the period ", 1)
    if not parts:
        said = f"whether {change} lengthens or shortens the period is not resolved"
    elif unresolved:
        said += f", and it is not resolved in {unresolved}"
    settings = f"{count(len(turns))} setting{'s' if len(turns) > 1 else ''}"
    return f" {arms} took turns in {settings}: {said} (95 % intervals over launches)."


def _pinned(sweep: SweepView) -> str:
    observed, possible = _known(sweep, "hazards_observed"), _known(sweep, "hazards_possible")
    if not observed:
        return f"Not measured: {_why_not(sweep, 'hazards_observed')}."
    seen, feared = int(sum(observed)), int(sum(possible))
    verdict = (
        f"UNSAFE: {count(seen)} uses of a slot were overwritten while their copy was in flight." if seen
        else f"No overwrite was observed, but {count(feared)} uses are not ordered behind their copy." if feared
        else f"In all {len(observed)} points no slot was overwritten, or could have been, while its copy was in flight."
    )
    pageable = _known(sweep, "async_pageable")
    if not pageable:
        return verdict
    fake = int(sum(pageable))
    return f"{verdict} " + (
        f"{count(fake)} copies are asynchronous in name only: their host memory is pageable." if fake
        else "No asynchronous copy has pageable memory on the host side."
    )


def _padding(sweep: SweepView) -> str:
    tokens, time = _known(sweep, "padding_token_share"), _known(sweep, "padding_time_mean_ns")
    if not tokens:
        return f"Not measured: {_why_not(sweep, 'padding_token_share')}."
    head = f"Where graphs were replayed, {_range(tokens, percent)} of the tokens are padding"
    cost = (
        f", which changes a step's forward by {_range(time, duration)}." if time
        else f"; what that costs in time was not measured: {_why_not(sweep, 'padding_time_mean_ns')}."
    )
    return f"{head}{cost}{_graphs(sweep)}"


def _graphs(sweep: SweepView) -> str:
    """What replay is worth in the period, of points that took turns; of separate runs only that they cannot tell."""
    found = in_turns(sweep, GRAPH_MODE, "none", "full")
    judged = [
        (own.mean, own.low, own.high) for _, own in found.took_turns if own.low is not None and own.high is not None
    ]
    if judged:
        return _effect("Graph modes", "replay", judged)
    return _unjudged(found)


def _unjudged(found: Turns) -> str:
    if found.took_turns:
        means = _range([own.mean for _, own in found.took_turns], duration)
        return (
            f" Where graph modes took turns, in one launch, a replayed step's period less an eager one's is {means}:"
            " no interval before there are several (--param repeats=5)."
        )
    if found.apart:
        return (
            " What replay is worth in the period, separate runs do not tell: graph modes have to take turns in one"
            f" process, in several launches ({_turns(GRAPH_MODE)})."
        )
    return ""
