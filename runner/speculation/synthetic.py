"""Synthetic drafts: a continuation that is known before, spoilt where the wanted acceptance says so.

The runner verifies them like any others, so the text stays the model's; only how many drafts are right is made up.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...workloads.acceptance import SyntheticAcceptance, num_right
from .expansion import IntArray

Continuations = Mapping[str, IntArray]
"""By request the tokens that the model will choose behind its prompt, greedily and without speculation."""


def spoilt(known: IntArray, right: int, k: int, vocab_size: int) -> tuple[int, ...]:
    """k drafts for a request whose next tokens are `known`: `right` of them as they are, the next one another token.

    Where the continuation ends (the request does too) they are wrong as well, for nobody knows better.
    """
    drafts = np.zeros(k, dtype=np.int32)
    ahead = known[:k]
    drafts[: ahead.size] = ahead
    drafts[right:] = (drafts[right:] + 1) % vocab_size
    return tuple(drafts.tolist())


class SyntheticSource:
    """Drafts of one runner's requests by name and number of outputs so far."""

    def __init__(self, acceptance: SyntheticAcceptance, continuations: Continuations, k: int, vocab_size: int) -> None:
        self._acceptance = acceptance
        self._continuations = continuations
        self.num_drafts = k
        self._vocab_size = vocab_size
        self._turns: dict[str, int] = {}

    def drafts(self, req_id: str, num_outputs: int) -> tuple[int, ...]:
        """k drafts behind the request's `num_outputs` outputs."""
        turn = self._turns.get(req_id, 0)
        self._turns[req_id] = turn + 1
        right = num_right(self._acceptance, (req_id, num_outputs), turn, self.num_drafts)
        return spoilt(self._continuations[req_id][num_outputs:], right, self.num_drafts, self._vocab_size)
