"""Section: the dispatch ledger."""

from __future__ import annotations

from ..document import Block, Column, Missing, Quantity, Section, Words
from ..views.dispatch import DispatchView
from .cells import count_column, number, percent_column, table

MODE_WORDS = {"none": "eager", "piecewise": "piecewise graphs", "full": "full graph"}
REASON_WORDS = {
    "hit": "a captured size fits", "above_max": "more tokens than the largest captured size",
    "mixed": "prefill in the batch", "not_captured": "this shape was not captured", "lora": "adapters in the batch",
    "disabled": "graphs are switched off",
}


def dispatch_section(view: DispatchView, origin: str) -> Section:
    """Counts by mode and reason, and by captured size."""
    if not view.decisions:
        words = Words("Not measured: the recording holds no dispatch decision.")
        return Section("dispatch", "Dispatch ledger", (words,))
    blocks: list[Block] = [_by_reason(view, origin)]
    if any(row.size is not None for row in view.rows):
        blocks.append(_by_size(view, origin))
    return Section("dispatch", "Dispatch ledger", tuple(blocks))


def _by_reason(view: DispatchView, origin: str) -> Block:
    rows = [
        (MODE_WORDS.get(mode, mode), reason, REASON_WORDS.get(reason, "-"), Quantity(number_, "count"),
         Quantity(number_ / view.decisions, "fraction"))
        for mode, reason, number_ in view.by_reason()
    ]
    columns = (
        Column("ran as"), Column("reason"), Column("which means"), count_column("decisions"), percent_column("share"),
    )
    return table("Decisions by mode and reason", columns, rows, origin)


def _by_size(view: DispatchView, origin: str) -> Block:
    rows = [
        (
            MODE_WORDS.get(row.mode, row.mode), row.reason,
            Missing("nothing was replayed") if row.size is None else Quantity(row.size, "count"),
            Quantity(row.decisions, "count"), number(row.real_tokens, "count", "token counts are missing"),
            number(row.padding_tokens, "count", "nothing was replayed"),
        )
        for row in sorted(view.rows, key=lambda row: (row.size is None, row.size or 0))
    ]
    columns = (
        Column("ran as"), Column("reason"), count_column("captured size"), count_column("decisions"),
        count_column("real tokens"), count_column("padding tokens"),
    )
    return table("Decisions by captured size", columns, rows, origin)
