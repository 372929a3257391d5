"""Section: how many drafts were verified and accepted, and by how many tokens a request went on."""

from __future__ import annotations

import numpy as np

from ...analysis.speculation import Speculation
from ..document import Column, Quantity, Section, Words
from ..formatting import count, percent, significant
from .cells import count_column, number, table


def speculation_sections(found: Speculation, origin: str) -> tuple[Section, ...]:
    """No section where no counted step verified a draft."""
    if found.accepted_length is None:
        return ()
    low, middle, high = (float(value) for value in np.percentile(found.lengths, (10, 50, 90)))
    columns = (
        Column("figure"), count_column("steps"),
        *(Column(name, "number", numeric=True) for name in ("p10", "p50", "p90", "all requests")),
    )  # fmt: skip
    row = (
        "accepted length [tokens a request and step]", Quantity(found.steps, "count"),
        *(number(value, "number") for value in (low, middle, high)), number(found.accepted_length, "number"),
    )
    note = "Accepted length: the accepted drafts of a request in a step, and the token behind them."
    blocks = (Words(speculation_words(found), emphasis=True), table("Accepted length", columns, [row], origin, note))
    return (Section("speculation", "Speculation", blocks, brief=True),)


def speculation_words(found: Speculation) -> str:
    """A sentence; empty where nothing was drafted."""
    length, share = found.accepted_length, found.accepted_share
    if length is None or share is None:
        return ""
    return (
        f"{count(found.accepted_tokens)} of {count(found.drafted_tokens)} drafts were accepted ({percent(share)}) in"
        f" {count(found.steps)} steps: a request with drafts went on by {significant(length)} tokens a step."
    )
