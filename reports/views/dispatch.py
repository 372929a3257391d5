"""The dispatch ledger: which container ran the steps, and why that one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ...analysis.tables import TableSource, ints, texts


@dataclass(frozen=True, slots=True)
class DispatchRow:
    """Decisions of one kind. `padding_tokens` is None where a padded size or a token count is not known."""

    mode: str
    reason: str
    size: int | None
    decisions: int
    real_tokens: int | None
    padding_tokens: int | None


@dataclass(frozen=True, slots=True)
class DispatchView:
    """All decisions of a recording by mode, reason and size, the most frequent first."""

    rows: tuple[DispatchRow, ...]
    decisions: int

    def by_reason(self) -> tuple[tuple[str, str, int], ...]:
        """(mode, reason, decisions), sizes joined."""
        counts: Counter[tuple[str, str]] = Counter()
        for row in self.rows:
            counts[row.mode, row.reason] += row.decisions
        return tuple((mode, reason, number) for (mode, reason), number in counts.most_common())


def gather_dispatch(recording: TableSource) -> DispatchView:
    """Count the rows of `dispatch`."""
    frame = recording.table("dispatch")
    tokens, known = ints(frame, "num_tokens")
    sizes, sized = ints(frame, "size")
    keys = list(zip(texts(frame, "mode"), texts(frame, "reason"), np.where(sized, sizes, -1).tolist(), strict=True))
    rows = []
    for key, number in Counter(keys).most_common():
        mine = np.array([other == key for other in keys], dtype=np.bool_)
        real = int(tokens[mine].sum()) if known[mine].all() else None
        size = None if key[2] < 0 else key[2]
        padding = None if real is None or size is None else size * number - real
        rows.append(DispatchRow(key[0] or "unknown", key[1] or "unknown", size, number, real, padding))
    return DispatchView(tuple(rows), len(frame))
