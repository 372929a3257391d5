"""What comes out often enough: distributions against the formula, by chi-square with fixed seeds."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from stepscope.runner.sampling.draw import DrawOptions, draw

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, 1.0])
DRAWS = 40_000


def options(uniform, temperature=1.0, top_k=0, top_p=1.0):
    rows = len(uniform)
    return DrawOptions(
        torch.full((rows,), temperature),
        torch.full((rows,), top_k, dtype=torch.int64),
        torch.full((rows,), top_p, dtype=torch.float64),
        torch.as_tensor(uniform, dtype=torch.float64),
        limited=top_k > 0 or top_p < 1,
    )


def expected(temperature, top_k, top_p):
    """The definition, a token at a time. Equal scores keep the order of their ids."""
    order = sorted(range(len(LOGITS)), key=lambda token: -float(LOGITS[token]))
    weights = {token: np.exp(float(LOGITS[token]) / temperature) for token in order[: top_k or len(order)]}
    total, held, kept = sum(weights.values()), 0.0, {}
    for token, weight in weights.items():
        if held >= top_p:
            break
        kept[token] = weight
        held += weight / total
    return {token: weight / sum(kept.values()) for token, weight in kept.items()}


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (3.0, 0, 1.0), (1.0, 3, 1.0), (1.0, 0, 0.8), (0.7, 4, 0.9), (1.0, 2, 0.3)],
)
def test_frequencies_follow_the_definition(temperature, top_k, top_p):
    uniform = torch.rand(DRAWS, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    tokens = draw(LOGITS.expand(DRAWS, -1), options(uniform, temperature, top_k, top_p))
    probabilities = expected(temperature, top_k, top_p)
    counts = torch.bincount(tokens, minlength=len(LOGITS)).tolist()
    assert {token for token, count in enumerate(counts) if count} == set(probabilities)
    if len(probabilities) > 1:
        observed = [counts[token] for token in probabilities]
        assert chisquare(observed, [DRAWS * share for share in probabilities.values()]).pvalue > 0.01


def test_the_wrong_distribution_would_be_seen():
    uniform = torch.rand(DRAWS, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    counts = torch.bincount(draw(LOGITS.expand(DRAWS, -1), options(uniform, 0.95)), minlength=len(LOGITS)).tolist()
    shares = expected(1.0, 0, 1.0)
    assert chisquare([counts[token] for token in shares], [DRAWS * share for share in shares.values()]).pvalue < 1e-6


def test_rows_have_their_own_options():
    rows = 1000
    uniform = torch.rand(rows, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    mixed = DrawOptions(
        torch.ones(rows), torch.arange(rows) % 2, torch.ones(rows, dtype=torch.float64), uniform, limited=True
    )
    tokens = draw(LOGITS.expand(rows, -1), mixed)
    assert set(tokens[1::2].tolist()) == {0}
    assert set(tokens[::2].tolist()) == set(range(6))


@pytest.mark.parametrize("limits", [{}, {"top_k": 5}, {"top_p": 0.999}])
def test_the_ends_of_the_unit_interval_never_reach_a_forbidden_token(limits):
    logits = torch.tensor([[float("-inf"), 1.0, 2.0, float("-inf")]] * 2)
    tokens = draw(logits, options([0.0, 1.0 - 2.0**-53], **limits))
    assert set(tokens.tolist()) == {1, 2}


def test_a_temperature_next_to_zero_is_greedy_and_finite():
    assert draw(LOGITS[None, :], options([0.999], temperature=1e-38)).tolist() == [0]
