"""Verification of drafts: by hand where nothing is random, by chi-square where it is, and mutants that must fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare
from stepscope.runner.sampling import rejection
from stepscope.runner.sampling.draw import DrawOptions
from stepscope.runner.sampling.rejection import Chances, probabilities_of, verify_greedy, verify_random

DRAWS = 20_000
SEEDS = (11, 23, 37, 58, 71)
VOCABULARY = 6


def greedy(targets, first, drafts):
    verified = verify_greedy(torch.tensor(targets), torch.tensor(first), torch.tensor(drafts, dtype=torch.int32))
    return verified.tokens.tolist(), verified.num_accepted.tolist()


@pytest.mark.parametrize(
    ("drafts", "targets", "tokens", "accepted"),
    [
        ([4, 5, 6], [4, 5, 6, 9], [4, 5, 6, 9], 3),  # all match: the bonus comes along
        ([4, 5, 6], [4, 5, 7, 9], [4, 5, 7, -1], 2),
        ([4, 5, 6], [3, 5, 6, 9], [3, -1, -1, -1], 0),  # matches behind a rejected draft count for nothing
        ([4, -1, -1], [4, 8, 0, 0], [4, 8, -1, -1], 1),
        ([-1, -1, -1], [2, 0, 0, 0], [2, -1, -1, -1], 0),  # a row without drafts: one token, as ever
    ],
)
def test_greedy_rows_by_hand(drafts, targets, tokens, accepted) -> None:
    assert greedy(targets, [0], [drafts]) == ([tokens], [accepted])


def test_greedy_rows_of_different_lengths_share_one_stream_of_logits() -> None:
    # GIVEN rows with 2, 0 and 1 drafts: their logits are 0 1 2, 3 and 4 5
    tokens, accepted = greedy([7, 8, 9, 1, 5, 6], [0, 3, 4], [[7, 8], [-1, -1], [4, -1]])
    assert tokens == [[7, 8, 9], [1, -1, -1], [5, -1, -1]]
    assert accepted == [2, 0, 0]


def test_greedy_equals_the_definition_on_random_rows() -> None:
    random = np.random.default_rng(3)
    for _ in range(40):
        k, rows = int(random.integers(1, 6)), int(random.integers(1, 9))
        counts = random.integers(0, k + 1, size=rows)
        drafts = np.where(np.arange(k) < counts[:, None], random.integers(0, 2, size=(rows, k)), -1)
        targets = random.integers(0, 2, size=int(counts.sum()) + rows)
        first = np.cumsum(counts + 1) - counts - 1
        wanted = []
        for row in range(rows):
            own = targets[first[row] : first[row] + counts[row] + 1].tolist()
            same = next((i for i in range(counts[row]) if drafts[row, i] != own[i]), int(counts[row]))
            wanted.append(own[: same + 1] + [-1] * (k - same))
        assert greedy(targets.tolist(), first.tolist(), drafts.tolist())[0] == wanted


def shares(seed: int, *shape: int) -> torch.Tensor:
    """Distributions that differ well: [*shape, VOCABULARY] float64."""
    return torch.tensor(np.random.default_rng(seed).dirichlet(np.full(VOCABULARY, 0.8), size=shape))


def chances(seed: int, k: int) -> Chances:
    generator = torch.Generator().manual_seed(seed)
    return Chances(
        torch.rand(DRAWS, k, dtype=torch.float64, generator=generator),
        torch.rand(DRAWS, dtype=torch.float64, generator=generator),
    )


def verified_rows(seed: int, target: torch.Tensor, drafts: torch.Tensor):
    """20,000 equal rows of k drafts: `target` [k + 1, V] is p at each place, whatever was accepted before."""
    k = drafts.shape[1]
    probabilities = target.repeat(DRAWS, 1)
    first = torch.arange(DRAWS) * (k + 1)
    return verify_random(probabilities, first, drafts, chances(seed, k))


def likely_drafts(target: torch.Tensor) -> torch.Tensor:
    """What the target likes best at each place, so that many rows get far."""
    return target[:-1].argmax(dim=1).to(torch.int32).expand(DRAWS, -1)


def worst_p(seed: int) -> float:
    """The smallest p-value of the tokens at each place against the target there, among the rows that reach it."""
    target = shares(seed, 4)
    tokens = verified_rows(seed, target, likely_drafts(target)).tokens
    worst = 1.0
    for place in range(4):
        reached = tokens[:, place][tokens[:, place] >= 0]
        counts = torch.bincount(reached, minlength=VOCABULARY).numpy()
        expected = target[place].numpy() * counts.sum()
        assert counts.sum() > 50
        worst = min(worst, chisquare(counts, expected).pvalue)
    return worst


@pytest.mark.parametrize("seed", SEEDS)
def test_tokens_have_the_target_distribution(seed: int) -> None:
    # WHEN 20,000 rows are verified at temperature 1, THEN at each place the kept tokens follow the target's p
    assert worst_p(seed) > 0.001


@pytest.mark.parametrize("seed", SEEDS)
def test_the_second_token_does_not_depend_on_how_the_first_came_about(seed: int) -> None:
    # GIVEN rows that accepted the first draft, by the number that was drawn for the token behind it
    target = shares(seed, 2)
    drafts = likely_drafts(target)
    numbers = chances(seed, 1)
    verified = verify_random(target.repeat(DRAWS, 1), torch.arange(DRAWS) * 2, drafts, numbers)
    low = numbers.accept[:, 0] < target[0].max() / 2
    reached = verified.num_accepted == 1
    tables = [torch.bincount(verified.tokens[reached & half, 1], minlength=VOCABULARY) for half in (low, ~low)]
    assert chi2_contingency(torch.stack(tables).numpy()).pvalue > 0.001


def test_without_residual_resampling_the_distribution_is_wrong(monkeypatch) -> None:
    # GIVEN a mutant that draws from p itself where a draft was rejected
    monkeypatch.setattr(rejection, "_residual", lambda target, *_: target)
    # THEN every seed sees it
    assert all(worst_p(seed) < 1e-6 for seed in SEEDS)


def test_always_accepting_is_wrong_too(monkeypatch) -> None:
    monkeypatch.setattr(rejection, "_leading", lambda kept: torch.full(kept.shape[:1], kept.shape[1]))
    assert all(worst_p(seed) < 1e-6 for seed in SEEDS)


def test_a_draft_is_kept_as_often_as_the_target_would_have_drawn_it() -> None:
    target = shares(7, 2)
    accepted = verified_rows(7, target, likely_drafts(target)).num_accepted.double().mean()
    assert abs(accepted - target[0].max()) < 0.015


def options(rows: int, **more: float) -> DrawOptions:
    values = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} | more
    return DrawOptions(
        torch.full((rows,), values["temperature"]),
        torch.full((rows,), int(values["top_k"]), dtype=torch.int64),
        torch.full((rows,), values["top_p"], dtype=torch.float64),
        torch.zeros(rows, dtype=torch.float64),
        limited=values["top_k"] > 0 or values["top_p"] < 1,
    )


def test_limits_apply_before_verification() -> None:
    # GIVEN scores whose two best tokens are 0 and 3
    logits = torch.tensor([[2.0, -1.0, 0.0, 1.0]])
    p = probabilities_of(logits, options(1, top_k=2))
    assert p.dtype == torch.float64
    assert p[0].tolist() == pytest.approx([np.e / (1 + np.e), 0, 0, 1 / (1 + np.e)])
    # THEN a draft outside them is never kept, and never comes back as the replacement
    for draw in np.linspace(0, 0.999, 7):
        number = Chances(torch.tensor([[0.0]], dtype=torch.float64), torch.tensor([draw], dtype=torch.float64))
        verified = verify_random(p.repeat(2, 1), torch.tensor([0]), torch.tensor([[2]], dtype=torch.int32), number)
        assert verified.num_accepted.tolist() == [0]
        assert verified.tokens[0, 0].item() in (0, 3)


def test_a_row_without_drafts_draws_as_ever() -> None:
    p = shares(3, 1)
    number = partial(Chances, torch.zeros(1, 2, dtype=torch.float64))
    cumulative = p[0].cumsum(0)
    for draw in (0.0, 0.3, 0.77, 0.9999):
        final = torch.tensor([draw], dtype=torch.float64)
        verified = verify_random(p, torch.tensor([0]), torch.tensor([[-1, -1]], dtype=torch.int32), number(final))
        assert verified.tokens.tolist() == [[int((cumulative <= draw).sum()), -1, -1]]


def test_a_draft_that_only_rounding_rejects_is_drawn_again() -> None:
    # GIVEN p of 1 at the draft, which leaves nothing to draw from, and a number at the very edge
    p = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    edge = Chances(torch.ones(1, 1, dtype=torch.float64), torch.tensor([0.2], dtype=torch.float64))
    verified = verify_random(p, torch.tensor([0]), torch.tensor([[0]], dtype=torch.int32), edge)
    assert verified.tokens.tolist() == [[0, -1]]
