"""Section: the dispatch ledger, what ran as a graph and what did not, with the reason."""

from __future__ import annotations

from ...analysis.padding import Padding
from ..document import Block, Column, Quantity, Section, Words
from .cells import count_column, percent_column, records, table, word

TITLE = "Dispatch ledger"
MODE_WORDS = {"none": "eager", "piecewise": "piecewise graphs", "full": "full graph"}
REASON_WORDS = {
    "hit": "a captured size fits", "above_max": "more tokens than the largest captured size",
    "mixed": "prefill in the batch", "not_captured": "this shape was not captured", "lora": "adapters in the batch",
    "disabled": "graphs are switched off",
}


def dispatch_section(padding: Padding, origin: str) -> Section:
    """Decisions of the counted steps by mode and reason."""
    rows = list(records(padding.dispatch))
    if not rows:
        words = Words("Not measured: no counted step holds a dispatch decision.")
        return Section("dispatch", TITLE, (words,), nav="Dispatch")
    body = [
        (
            MODE_WORDS.get(row["mode"], word(row["mode"])), word(row["reason"]),
            REASON_WORDS.get(row["reason"], "a reason of the engine's own"), Quantity(row["steps"], "count"),
            Quantity(row["share"], "fraction"),
        )
        for row in rows
    ]
    columns = (
        Column("ran as"), Column("reason"), Column("which means"), count_column("steps"), percent_column("share"),
    )
    blocks: tuple[Block, ...] = (table("Decisions in counted steps, by mode and reason", columns, body, origin),)
    return Section("dispatch", TITLE, blocks, nav="Dispatch")
