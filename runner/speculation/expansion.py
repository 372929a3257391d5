"""Which logits a step with drafts needs: instead of one place a row, one for each draft and one behind the last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Expansion:
    """Places of R rows with D drafts in all; names as in vLLM's SpecDecodeMetadata.

    num_draft_tokens      [R] int32
    logits_indices        [R + D] int64 into the flat stream: a row's last 1 + drafts tokens, rows in order
    target_logits_indices [D] int64 into `logits_indices`: what decides about each draft, the token before it
    bonus_logits_indices  [R] int64 into `logits_indices`: each row's last token
    first_logits_indices  [R] int64 into `logits_indices`: each row's first one
    """

    num_draft_tokens: IntArray
    logits_indices: LongArray
    target_logits_indices: LongArray
    bonus_logits_indices: LongArray
    first_logits_indices: LongArray

    @property
    def num_logits(self) -> int:
        """R + D."""
        return int(self.logits_indices.size)


def expand(scheduled: IntArray, num_draft_tokens: IntArray) -> Expansion:
    """The places for rows of `scheduled` [R] tokens, of which the last `num_draft_tokens` [R] are drafts.

    Example: rows of 4 100 3 100 2 tokens with drafts 3 0 2 0 1 take the logits of 0 1 2 3 103 104 105 106 206 207 208;
    of these 0 1 2 5 6 9 decide about a draft and 3 4 7 8 10 are the bonus.
    A row without tokens takes place 0 rather than one before the stream; its sample is discarded.
    """
    kept = num_draft_tokens.astype(np.int64) + 1
    behind = np.cumsum(kept)
    first = behind - kept
    order = np.arange(behind[-1] if behind.size else 0)
    shift = np.cumsum(scheduled, dtype=np.int64) - behind
    places = order + np.repeat(shift, kept)
    is_target = np.ones(order.size, dtype=np.bool_)
    is_target[behind - 1] = False
    return Expansion(
        num_draft_tokens=num_draft_tokens,
        logits_indices=np.maximum(places, 0, out=places),
        target_logits_indices=np.flatnonzero(is_target),
        bonus_logits_indices=behind - 1,
        first_logits_indices=first,
    )
