"""Rows of all kinds in one step with drafts: greedy, drawn, limited, masked, with and without drafts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from stepscope.runner.inputs.step_inputs import StepInputs
from stepscope.runner.sampling import rejection
from stepscope.runner.sampling.draw import draw
from stepscope.runner.sampling.options import options_of
from stepscope.runner.sampling.rejection_sampler import RejectionSampler
from stepscope.runner.sampling.uniforms import row_uniforms
from stepscope.runner.speculation.expansion import expand
from stepscope.runner.speculation.metadata import SpecDecodeMetadata
from stepscope.runner.state.sampling_metadata import SamplingMetadata
from stepscope.runner.state.seeded_stream import SeededStream

VOCAB = 8


def sampling_of(temperature, top_k=None, seeds=None, forbidden=None) -> SamplingMetadata:
    rows = len(temperature)
    temperature = np.asarray(temperature, dtype=np.float32)
    return SamplingMetadata(
        num_reqs=rows, temperature=temperature, top_k=np.asarray(top_k or [0] * rows, dtype=np.int32),
        top_p=np.ones(rows, dtype=np.float32), generators={row: SeededStream(s) for row, s in (seeds or {}).items()},
        forbidden=forbidden, all_greedy=not temperature.any(),
    )  # fmt: skip


def step_of(drafts: list[list[int]], k: int, step: int = 3, discard=None) -> StepInputs:
    """A decode of each row with its drafts, and only what the sampler reads of it."""
    counts = np.asarray([len(own) for own in drafts], dtype=np.int32)
    expansion = expand(counts + 1, counts)
    table = np.full((len(drafts), k), -1, dtype=np.int32)
    for row, own in enumerate(drafts):
        table[row, : len(own)] = own
    spec = SpecDecodeMetadata(
        expansion, table, torch.from_numpy(table), torch.from_numpy(expansion.first_logits_indices.astype(np.int32)),
        torch.from_numpy(expansion.logits_indices.astype(np.int32)),
    )  # fmt: skip
    nothing, tensor = np.zeros(0, dtype=np.int32), torch.zeros(0)
    rows = len(drafts)
    return StepInputs(
        step=step, req_ids=tuple(f"r{row}" for row in range(rows)), num_reqs=rows, num_tokens=int((counts + 1).sum()),
        num_scheduled=counts + 1, num_computed=nothing, query_start_loc=nothing,
        req_indices=nothing, query_pos=nothing, positions=nothing, seq_lens=counts + 10, logits_indices=nothing,
        discard=np.asarray(discard or [False] * rows), is_prefilling=nothing, input_ids=tensor, positions_gpu=tensor,
        query_start_loc_gpu=tensor, seq_lens_gpu=tensor, groups=(), logits_indices_gpu=tensor, speculation=spec,
    )  # fmt: skip


def sampled(logits, inputs, sampling, seed=5):
    return RejectionSampler(seed).sample(logits, inputs, inputs.speculation, sampling).tolist()


def peaks(*tokens: int) -> torch.Tensor:
    """Logits whose rows choose these tokens."""
    return 9.0 * torch.nn.functional.one_hot(torch.tensor(tokens), VOCAB).float()


def test_greedy_and_drawn_rows_share_a_step() -> None:
    # GIVEN a greedy row with drafts, a certain row that draws with drafts, and one without
    inputs = step_of([[1, 2], [3, 4], []], 2)
    logits = torch.cat((peaks(1, 5, 0), 50 * peaks(3, 4, 6), 50 * peaks(7)))
    assert sampled(logits, inputs, sampling_of([0, 1, 1])) == [[1, 5, -1], [3, 4, 6], [7, -1, -1]]


def test_a_row_without_drafts_gets_the_token_of_a_step_without_any() -> None:
    # GIVEN rows of even logits, whose neighbours have drafts
    logits = torch.zeros(6, VOCAB)
    inputs = step_of([[1, 2], [], [], []], 2)
    sampling = sampling_of([0, 1, 1, 1], top_k=[0, 0, 3, 0], seeds={3: 11})
    got = sampled(logits, inputs, sampling)
    alone = sampling_of([0, 1, 1, 1], top_k=[0, 0, 3, 0], seeds={3: 11})
    for row, limited in ((1, False), (2, True), (3, False)):
        rows = np.asarray([row])
        options = options_of(rows, alone, row_uniforms(rows, inputs, alone, 5), torch.device("cpu"), limited=limited)
        assert got[row] == [int(draw(torch.zeros(1, VOCAB), options)), -1, -1]


def test_a_discarded_row_touches_no_stream() -> None:
    inputs = step_of([[1], [1]], 1, discard=[True, False])
    sampling = sampling_of([1, 1], seeds={0: 3, 1: 4})
    sampled(torch.zeros(4, VOCAB), inputs, sampling)
    # THEN the hidden row's stream is untouched, the other one has given a number for its draft and one for the end
    fresh = SeededStream(3)
    assert sampling.generators[0].number(9) == fresh.number(9)
    spent = SeededStream(4)
    for _ in range(2):
        spent.number(0)
    assert sampling.generators[1].number(9) == spent.number(9)


def test_forbidden_tokens_are_never_sampled_at_any_place() -> None:
    # GIVEN a row that may not say 2, though its draft and every score do
    forbidden = np.zeros((2, VOCAB), dtype=np.bool_)
    forbidden[0, 2] = True
    inputs = step_of([[2, 2], [2, 2]], 2)
    logits = peaks(2, 2, 2, 2, 2, 2) + peaks(3, 3, 3, 3, 3, 3) / 2
    greedy = sampled(logits, inputs, sampling_of([0, 0], forbidden=forbidden))
    assert greedy == [[3, -1, -1], [2, 2, 2]]
    for seed in range(20):
        drawn = sampled(logits, inputs, sampling_of([1, 0], forbidden=forbidden), seed)
        assert 2 not in drawn[0]
        assert drawn[0][1:] == [-1, -1]


LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, 1.0, 0.2, -2.0])
ROWS, STEPS = 1000, 20


def counts_of_first_tokens(seed: int, temperature: float, top_k: int) -> np.ndarray:
    """20,000 draws of requests without a seed of their own, each with a draft that is often right."""
    counts = np.zeros(VOCAB, dtype=np.int64)
    sampling = sampling_of([temperature] * ROWS, top_k=[top_k] * ROWS)
    logits = LOGITS.expand(2 * ROWS, -1)
    for step in range(STEPS):
        inputs = step_of([[0] if row % 2 else [5] for row in range(ROWS)], 1, step)
        tokens = np.asarray(sampled(logits, inputs, sampling, seed))[:, 0]
        counts += np.bincount(tokens, minlength=VOCAB)
    return counts


def p_value(seed: int, temperature: float, top_k: int) -> float:
    shares = torch.softmax(LOGITS.double() / temperature, dim=0)
    if top_k:
        shares[shares < shares.topk(top_k).values[-1]] = 0
        shares /= shares.sum()
    counts, expected = counts_of_first_tokens(seed, temperature, top_k), ROWS * STEPS * shares.numpy()
    assert (counts[expected == 0] == 0).all()
    return float(chisquare(counts[expected > 0], expected[expected > 0]).pvalue)


@pytest.mark.parametrize("seed", [11, 23, 37, 58, 71])
def test_a_requests_tokens_have_the_targets_distribution(seed: int) -> None:
    assert p_value(seed, 1.0, 0) > 0.001


def test_with_other_options_too() -> None:
    assert p_value(11, 0.6, 3) > 0.001


def test_without_residual_resampling_it_is_seen(monkeypatch) -> None:
    monkeypatch.setattr(rejection, "_residual", lambda target, *_: target)
    assert all(p_value(seed, 1.0, 0) < 1e-6 for seed in (11, 23, 37, 58, 71))
