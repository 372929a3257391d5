"""Draft tokens of a batch, and what proposes them."""

from __future__ import annotations

from dataclasses import dataclass

from .expansion import IntArray

NO_DRAFT = -1
"""Behind a row's drafts. No token has this id, so no verification ever accepts it."""


@dataclass(frozen=True, slots=True)
class DraftTable:
    """drafts [R, k] int32, NO_DRAFT behind each row's own; counts [R] int32."""

    drafts: IntArray
    counts: IntArray

    def by_request(self, req_ids: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
        """The drafts of the requests in these rows; one without drafts is absent."""
        counts = self.counts.tolist()
        return {
            req_id: tuple(row[:count])
            for req_id, row, count in zip(req_ids, self.drafts.tolist(), counts, strict=True)
            if count
        }
