"""From scores to token ids: pure functions over a few rows of logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """Options of n rows with a temperature.

    temperature  [n] float32, > 0
    top_k        [n] int64, 0 is off
    top_p        [n] float64, 1 is off
    uniform      [n] float64 in [0, 1), the row's one random number
    limited      some row has top_k or top_p on
    """

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor
    uniform: torch.Tensor
    limited: bool


def draw(logits: torch.Tensor, options: DrawOptions) -> torch.Tensor:
    """Token ids [n] int64 for logits [n, vocab].

    One uniform number a row is turned into a token through the cumulative distribution, so a row costs its generator
    one draw whatever the vocabulary. top_k applies before top_p, which counts shares of what top_k left.
    """
    scaled = _scaled(logits, options)
    if not options.limited:
        return invert(torch.softmax(scaled, dim=-1, dtype=torch.float64), options.uniform)
    ordered, token_ids = scaled.sort(dim=-1, descending=True, stable=True)
    probabilities = _limit(ordered, options)
    return token_ids.gather(-1, invert(probabilities, options.uniform)[:, None]).squeeze(-1)


def target_probabilities(logits: torch.Tensor, options: DrawOptions) -> torch.Tensor:
    """[n, vocab] float64 shares that `draw` draws from, 0 outside top_k and top_p; there they don't add up to 1."""
    scaled = _scaled(logits, options)
    if not options.limited:
        return torch.softmax(scaled, dim=-1, dtype=torch.float64)
    ordered, token_ids = scaled.sort(dim=-1, descending=True, stable=True)
    shares = _limit(ordered, options)
    return torch.zeros_like(shares).scatter_(-1, token_ids, shares)


def _scaled(logits: torch.Tensor, options: DrawOptions) -> torch.Tensor:
    """Logits over temperature. The largest is moved to 0 before, which keeps tiny temperatures finite."""
    shifted = logits - logits.max(dim=-1, keepdim=True).values
    return shifted / options.temperature[:, None]


def _limit(ordered: torch.Tensor, options: DrawOptions) -> torch.Tensor:
    """Probabilities [n, vocab] of scores in falling order; 0 outside top_k and top_p, not normalised again."""
    vocab = ordered.shape[-1]
    kept = torch.where(options.top_k > 0, options.top_k, vocab)
    ranks = torch.arange(vocab, device=ordered.device)
    ordered = ordered.masked_fill(ranks >= kept[:, None], float("-inf"))
    probabilities = torch.softmax(ordered, dim=-1, dtype=torch.float64)
    # A token stays while those before it don't yet hold top_p together: the first always stays.
    before = probabilities.cumsum(dim=-1) - probabilities
    limit = torch.where(options.top_p < 1.0, options.top_p, float("inf"))
    return probabilities.masked_fill(before >= limit[:, None], 0.0)


def invert(probabilities: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Index [n] of the first column whose cumulative share exceeds the row's uniform number."""
    cumulative = probabilities.cumsum(dim=-1)
    total = cumulative[:, -1:]
    # Rounding must not lift the target to the total itself: no column exceeds that.
    target = torch.minimum(uniform[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)
