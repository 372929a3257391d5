"""What speculation brought: drafts verified and accepted in the counted steps.

    accepted length = tokens that a request with drafts went on by in a step, its own token included
                    = 1 + accepted drafts / requests with drafts
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import LongArray
from .tables import TableSource, processes

NO_DRAFTS = "no counted step verified a draft"
NOT_RECORDED = "the recording does not say what was drafted"


@dataclass(frozen=True, slots=True, eq=False)
class Speculation:
    """Sums over the `steps` counted steps that verified drafts and whose tokens came back.

    lengths          accepted length of each of these steps, [steps] float64
    accepted_length  over all of them (weighted by requests); None with `reason`
    accepted_share   of the drafts
    """

    steps: int
    drafted_reqs: int
    drafted_tokens: int
    accepted_tokens: int
    lengths: np.ndarray[tuple[int], np.dtype[np.float64]]
    reason: str | None

    @property
    def accepted_length(self) -> float | None:
        """Tokens a request and step; None where nothing was drafted."""
        return 1 + self.accepted_tokens / self.drafted_reqs if self.drafted_reqs else None

    @property
    def accepted_share(self) -> float | None:
        """Of the drafts; None where nothing was drafted."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else None


def speculation(recording: TableSource) -> Speculation:
    """Of all processes together."""
    parts: list[LongArray] = [np.zeros((0, 3), dtype=np.int64)]
    recorded = False
    for process in processes(recording):
        columns = [process.counted("steps").ints(name) for name in _COLUMNS]
        known = np.logical_and.reduce([valid for _, valid in columns])
        recorded = recorded or bool(columns[0][1].any())
        rows = np.stack([values[known] for values, _ in columns], axis=1)
        parts.append(rows[rows[:, 0] > 0])
    rows = np.concatenate(parts)
    reqs, drafted, accepted = (int(total) for total in rows.sum(axis=0))
    reason = None if reqs else NO_DRAFTS if recorded else NOT_RECORDED
    lengths = 1 + rows[:, 2] / np.maximum(rows[:, 0], 1)
    return Speculation(len(rows), reqs, drafted, accepted, lengths, reason)


_COLUMNS = ("drafted_reqs", "drafted_tokens", "accepted_tokens")
