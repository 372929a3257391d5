"""Section: what each forward waited for: the host, a copy, another queue, or only the device itself."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from ...analysis.gaps import Gaps
from ...analysis.stats import median
from ...analysis.tables import flags, ints, texts
from ..document import Block, Column, Quantity, Section, Words
from ..formatting import duration, percent
from .cells import count_column, percent_column, table

TITLE = "What bound the forwards"
_MEANS = {
    "host": "the device ran dry: the host had not enqueued the forward yet", "copy": "a copy of another queue",
    "event": "an operation of another queue", "device": "the device had work at all times: it is the bottleneck",
}


def gaps_section(gaps: Gaps, origin: str) -> Section:
    """Shares by what bound the forward's start in the replay."""
    if gaps.bound is None:
        return Section("gaps", TITLE, (Words(f"Not measured: {gaps.reason}."),), nav="Bound by")
    counted = gaps.steps[flags(gaps.steps, "counted", null=False)]
    bounds = Counter(bound for bound in texts(counted, "bound") if bound)
    rows = [
        (bound, _MEANS.get(bound, bound), Quantity(bounds[bound], "count"), Quantity(share, "fraction"))
        for bound, share in gaps.shares.items()
    ]
    columns = (Column("bound by"), Column("which means"), count_column("steps"), percent_column("share"))
    blocks: tuple[Block, ...] = (
        Words(bound_words(gaps), emphasis=True),
        table("Forwards of counted steps by their binding predecessor in the replay", columns, rows, origin),
        Words(inner_words(counted)),
    )
    return Section("gaps", TITLE, blocks, nav="Bound by")


def inner_words(counted: pd.DataFrame) -> str:
    """Idle time inside the forwards and before sampling, in a sentence or two."""
    idle, known = ints(counted, "forward_idle_ns")
    before, has_before = ints(counted, "sample_idle_ns")
    parts = []
    if known.any():
        gaps_p50 = median(ints(counted, "forward_gaps")[0][known])
        waited = Counter(cause for cause in texts(counted, "forward_waits_for") if cause)
        most = f", mostly for {waited.most_common(1)[0][0]}" if waited else ""
        parts.append(
            f"Inside a forward the compute queue idles {duration(median(idle[known]) or 0)} in {gaps_p50} gaps"
            f" (medians of {int(known.sum())}){most}."
        )
    if has_before.any():
        waited = Counter(cause for cause in texts(counted, "sample_waits_for") if cause)
        most = f", mostly for {waited.most_common(1)[0][0]}" if waited else ""
        parts.append(f"Before sampling it idles {duration(median(before[has_before]) or 0)} (median){most}.")
    return " ".join(parts) or "Idle time inside forwards and before sampling was not measured."


def bound_words(gaps: Gaps) -> str:
    """One sentence: host-bound, device-bound, or which mixture."""
    if gaps.bound is None:
        return f"What bound the forwards was not measured: {gaps.reason}."
    share = gaps.shares.get(gaps.bound)
    judged = sum(bound is not None for bound in texts(gaps.steps[flags(gaps.steps, "counted", null=False)], "bound"))
    idle = "" if gaps.idle_p50_ns is None else (
        f" Before a forward the compute queue has idled {duration(gaps.idle_p50_ns)} since the last work of a step"
        f" before (median of these {judged}; it may begin before the step does, so it is no part of a period)."
    )
    if share is None:
        mixture = ", ".join(f"{bound} {percent(part)}" for bound, part in gaps.shares.items())
        return f"No single bound: {mixture} of {judged} steps.{idle}"
    return f"The forward is {gaps.bound}-bound in {percent(share)} of {judged} counted steps.{idle}"
