"""Section: the dispatch ledger, what ran as a graph and what did not, with the reason."""

from __future__ import annotations

from ...analysis.graph_memory import GraphMemory
from ...analysis.padding import Padding
from ..document import Block, Column, Quantity, Section, Words
from ..formatting import counted, size
from .cells import count_column, percent_column, records, table, word

TITLE = "Dispatch ledger"
MODE_WORDS = {"none": "eager", "piecewise": "piecewise graphs", "full": "full graph"}
REASON_WORDS = {
    "hit": "a captured size fits", "above_max": "more tokens than the largest captured size",
    "mixed": "prefill in the batch", "not_captured": "this shape was not captured", "lora": "adapters in the batch",
    "disabled": "graphs are switched off", "prompt_embeds": "embeddings of prompts in the batch",
}


_FLAGS = {
    "estimate_zero": "nothing was foreseen, so nothing was left free for them",
    "estimate_above_free": "more was foreseen than was free",
    "ratio_out_of_range": "more than a factor of two apart",
}


def dispatch_section(padding: Padding, memory: GraphMemory | None, origin: str) -> Section:
    """Decisions of the counted steps by mode and reason, and what the captured graphs took of the device's memory."""
    taken = _memory(memory)
    rows = list(records(padding.dispatch))
    if not rows:
        words = Words("Not measured: no counted step holds a dispatch decision.")
        return Section("dispatch", TITLE, (words, *taken), nav="Dispatch")
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
    decisions = table("Decisions in counted steps, by mode and reason", columns, body, origin)
    return Section("dispatch", TITLE, (decisions, *taken), nav="Dispatch")


def _memory(memory: GraphMemory | None) -> tuple[Block, ...]:
    """What the graphs took, beside what was foreseen from the first captures; nothing where no capture was measured."""
    if memory is None or memory.measured_bytes is None or memory.per_size_bytes is None:
        return ()
    took = f"{counted(memory.num_sizes, 'captured graph')} took {size(memory.measured_bytes)} of the device's memory"
    foreseen = "" if memory.estimate_bytes is None else f"; {size(memory.estimate_bytes)} were foreseen"
    flags = "".join(f" ({_FLAGS[flag]})" for flag in memory.flags)
    return (Words(f"{took}, {size(memory.per_size_bytes)} each{foreseen}{flags}."),)
