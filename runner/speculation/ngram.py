"""Drafts by prompt lookup: what followed the last few tokens when the request had them before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .drafts import NO_DRAFT, DraftTable
from .expansion import IntArray


@dataclass(frozen=True, slots=True)
class NgramRule:
    """What counts as the same: the last n tokens, the largest n in [min_n, max_n] that occurred before.

    Of several places with that n the earliest wins, because most tokens follow it (vLLM's `ngram`: the same choice).
    num_drafts  most tokens to propose
    """

    num_drafts: int
    min_n: int
    max_n: int


class NgramProposer:
    """Proposes for a whole batch at once: rows are compared with their own last token, then only hits are looked at.

    Costs one comparison of each known token, and a few operations on the hits for each n; no state between steps.
    """

    def __init__(self, rule: NgramRule, max_model_len: int) -> None:
        self._rule = rule
        self._max_model_len = max_model_len

    def propose(self, token_ids: IntArray, num_tokens: IntArray) -> DraftTable:
        """Drafts for R rows of histories, token_ids [R, >= longest], num_tokens [R] of them known; 0 asks for none.

        A draft whose verified successor would lie behind max_model_len is not proposed.
        """
        rule, num_rows = self._rule, num_tokens.size
        room = np.minimum(rule.num_drafts, self._max_model_len - 1 - num_tokens)
        room[num_tokens < rule.min_n + 1] = 0
        drafts = np.full((num_rows, rule.num_drafts), NO_DRAFT, dtype=np.int32)
        starts = np.where(room > 0, self._continuations(token_ids, num_tokens), num_tokens)
        counts = np.clip(np.minimum(room, num_tokens - starts), 0, None).astype(np.int32)
        columns = np.arange(rule.num_drafts)
        wanted = columns < counts[:, None]
        rows, offsets = np.divmod(np.flatnonzero(wanted), rule.num_drafts)
        drafts[wanted] = token_ids[rows, starts[rows] + offsets]
        return DraftTable(drafts, counts)

    def _continuations(self, token_ids: IntArray, num_tokens: IntArray) -> npt.NDArray[np.intp]:
        """[R] where the text goes on behind the best earlier match; num_tokens where there is none."""
        rule, last = self._rule, num_tokens - 1
        starts = num_tokens.astype(np.intp)
        longest = int(num_tokens.max(initial=0))
        if longest <= rule.min_n:
            return starts
        tails = token_ids[np.arange(num_tokens.size), np.maximum(last, 0)]
        width = max(longest - 1, 1)
        equal = token_ids[:, :width] == tails[:, None]
        rows, ends = np.divmod(np.flatnonzero(equal), width)  # ten times faster than the nonzero of a matrix
        inside = ends < last[rows]  # what lies behind a row's tokens is no history, and the tail is not its own match
        rows, ends = rows[inside], ends[inside]
        for n in range(1, rule.max_n + 1):
            if n > 1:
                before = ends - (n - 1)
                same = (before >= 0) & (token_ids[rows, before] == token_ids[rows, last[rows] - (n - 1)])
                rows, ends = rows[same], ends[same]
            if not rows.size:
                break
            if n >= rule.min_n:
                starts[rows[::-1]] = ends[::-1] + 1  # written from the last to the first: the earliest stays
        return starts
