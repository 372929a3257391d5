"""Verification of drafts: pure functions over a few rows of logits. What is kept has the target's distribution.

Shapes: R rows, D drafts in all, k the most drafts of a row, L = R + D rows of logits, V the vocabulary. A row's logits
stand together: those that decide about its drafts, then the bonus behind the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..handoff.outputs import NOTHING
from .draw import DrawOptions, invert, target_probabilities


@dataclass(frozen=True, slots=True)
class Verified:
    """tokens [R, k + 1] int64, NOTHING behind each row's; num_accepted [R] int64 drafts: a row has one token more."""

    tokens: torch.Tensor
    num_accepted: torch.Tensor


def verify_greedy(targets: torch.Tensor, first: torch.Tensor, drafts: torch.Tensor) -> Verified:
    """The longest prefix of each row's drafts that the target would have chosen itself, and its token behind that.

    targets [L] int64 the target's choices, first [R] int64 the place of each row's first one, drafts [R, k] int32 with
    a negative id behind a row's drafts, which nothing matches.
    """
    places = _places(first, drafts, targets.numel())
    chosen = targets[places]
    accepted = _leading(chosen[:, :-1] == drafts)
    return Verified(_cut(chosen, accepted), accepted)


@dataclass(frozen=True, slots=True)
class Chances:
    """Random numbers in [0, 1) of R rows, float64: accept [R, k] one a draft, final [R] one for the last token."""

    accept: torch.Tensor
    final: torch.Tensor


def verify_random(
    probabilities: torch.Tensor, first: torch.Tensor, drafts: torch.Tensor, chances: Chances
) -> Verified:
    """Rejection sampling (Leviathan et al. 2023, Chen et al. 2023) of drafts that their drafter was certain of.

    Draft x is kept with probability p(x), for the drafter's own q is 1 at x. The first that is not kept is replaced by
    a draw from p without x, normalised; behind a row of kept drafts comes a draw from the bonus row's p. So each token
    has the target's distribution, whatever was proposed. probabilities [L, V] float64 are the target's p.
    """
    places = _places(first, drafts, probabilities.shape[0])
    proposed = drafts >= 0
    tokens = torch.where(proposed, drafts, 0).to(torch.int64)
    p_draft = probabilities[places[:, :-1], tokens]
    kept = proposed & (chances.accept < p_draft)
    accepted = _leading(kept)
    rest = _residual(probabilities[places.gather(1, accepted[:, None]).squeeze(1)], drafts, accepted)
    final = invert(rest, chances.final)
    padded = torch.cat((tokens, tokens.new_zeros(tokens.shape[0], 1)), dim=1)
    padded.scatter_(1, accepted[:, None], final[:, None])
    return Verified(_cut(padded, accepted), accepted)


def _places(first: torch.Tensor, drafts: torch.Tensor, num_logits: int) -> torch.Tensor:
    """[R, k + 1] rows of logits; behind a row's own they are somebody else's, and are never looked at."""
    offsets = torch.arange(drafts.shape[1] + 1, device=first.device)
    return (first[:, None] + offsets).clamp_(max=num_logits - 1)


def _leading(kept: torch.Tensor) -> torch.Tensor:
    """[R, k] bool -> [R] int64, how many stand before the first False."""
    return kept.to(torch.int64).cumprod(dim=1).sum(dim=1)


def _cut(tokens: torch.Tensor, accepted: torch.Tensor) -> torch.Tensor:
    """Tokens [R, k + 1] with NOTHING behind the accepted ones and one more."""
    behind = torch.arange(tokens.shape[1], device=tokens.device) > accepted[:, None]
    return tokens.masked_fill(behind, NOTHING)


def _residual(target: torch.Tensor, drafts: torch.Tensor, accepted: torch.Tensor) -> torch.Tensor:
    """What is left of p [R, V] where a draft was rejected: all but the draft, not normalised; else p itself.

    Nothing is left where p is 1 at the draft, which only rounding rejects; then p is the best that is known.
    """
    rows = torch.arange(drafts.shape[0], device=drafts.device)
    column = accepted.clamp(max=drafts.shape[1] - 1)
    draft = drafts[rows, column].to(torch.int64)
    rejected = (accepted < drafts.shape[1]) & (draft >= 0)
    at = draft.clamp(min=0)[:, None]  # scattered, not masked: the number of masked rows would have to be waited for
    rest = target.scatter(1, at, target.gather(1, at).masked_fill(rejected[:, None], 0.0))
    return torch.where(rest.sum(dim=1, keepdim=True) > 0, rest, target)


def probabilities_of(logits: torch.Tensor, options: DrawOptions) -> torch.Tensor:
    """The target's p [L, V] float64, normalised, with temperature, top_k and top_p of each row applied."""
    shares = target_probabilities(logits, options)
    return shares / shares.sum(dim=-1, keepdim=True)
