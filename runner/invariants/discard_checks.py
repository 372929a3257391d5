"""Invariant 8 of the article: only a request whose known tokens are all covered may show a sampled token."""

from __future__ import annotations

import numpy as np

from ...workloads.step import StepResult
from .view import StepView, first_difference


def discard(view: StepView) -> str | None:
    """The mask is set exactly where this step ends before the known tokens do, or where nothing was scheduled."""
    known = np.asarray([truth.num_tokens for truth in view.truths], dtype=np.int64)
    prompt = np.asarray([truth.prompt.size for truth in view.truths], dtype=np.int64)
    ends = view.expected_computed + view.expected_scheduled
    broken = first_difference(
        view.inputs.discard, (ends < known) | (view.expected_scheduled == 0), "discard"
    ) or first_difference(view.inputs.is_prefilling, view.expected_computed < prompt, "is_prefilling")
    if broken is not None:
        return broken
    if view.common is not None and view.common.is_prefilling[view.inputs.num_reqs :].any():
        return "a padding row is marked as prefilling"
    return None


def discarded_result(kept: frozenset[str], result: StepResult) -> str | None:
    """What became visible is what the mask let through; `kept` are those who must show a token."""
    odd = sorted(kept ^ result.sampled.keys())
    if not odd:
        return None
    verdict = "got no token, though its input is covered" if odd[0] in kept else "got a token inside its input"
    return f"{odd[0]!r} {verdict}"
