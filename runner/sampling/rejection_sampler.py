"""Verifies a step's drafts row by row as each row samples: greedy rows by their prefix, the others by rejection."""

from __future__ import annotations

import numpy as np
import torch

from ..inputs.step_inputs import StepInputs
from ..seeds import stream_seed
from ..speculation.metadata import SpecDecodeMetadata
from ..state.sampling_metadata import SamplingMetadata
from .draw import draw
from .options import Rows, by_limits, options_of
from .rejection import Chances, probabilities_of, verify_greedy, verify_random
from .uniforms import row_uniforms


class RejectionSampler:
    """Tokens of a step with drafts. A row without drafts gets the token that it would get in a step without any."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def sample(
        self, logits: torch.Tensor, inputs: StepInputs, spec: SpecDecodeMetadata, sampling: SamplingMetadata
    ) -> torch.Tensor:
        """[R, k + 1] int64 for logits [R + D, vocab]: accepted drafts, the token behind them, then NOTHING."""
        logits = _masked(logits, spec, sampling)
        tokens = verify_greedy(logits.argmax(dim=-1), spec.first_logits_gpu, spec.drafts_gpu).tokens
        if sampling.all_greedy:
            return tokens
        rows = np.flatnonzero((sampling.temperature > 0) & ~inputs.discard)
        drafted = spec.expansion.num_draft_tokens[rows] > 0
        for group, limited in by_limits(rows[~drafted], sampling):
            places = torch.from_numpy(spec.expansion.bonus_logits_indices[group]).to(logits.device)
            uniform = row_uniforms(group, inputs, sampling, self._seed)
            options = options_of(group, sampling, uniform, logits.device, limited=limited)
            tokens[torch.from_numpy(group).to(logits.device), 0] = draw(logits[places], options)
        for group, limited in by_limits(rows[drafted], sampling):
            chances = self._chances(group, inputs, spec, sampling).to(logits.device)
            where = torch.from_numpy(group).to(logits.device)
            tokens[where] = self._verified(logits, group, spec, sampling, chances, limited=limited)
        return tokens

    def _verified(
        self, logits: torch.Tensor, rows: Rows, spec: SpecDecodeMetadata, sampling: SamplingMetadata,
        numbers: torch.Tensor, *, limited: bool,
    ) -> torch.Tensor:  # fmt: skip
        """[rows, k + 1] by rejection in `rows`, all with drafts; numbers [rows, k + 1], the last for the last token."""
        kept = spec.expansion.num_draft_tokens[rows] + 1
        first = np.cumsum(kept) - kept
        places = np.arange(int(kept.sum())) + np.repeat(spec.expansion.first_logits_indices[rows] - first, kept)
        device = logits.device
        options = options_of(np.repeat(rows, kept), sampling, torch.empty(0), device, limited=limited)
        probabilities = probabilities_of(logits[torch.from_numpy(places).to(device)], options)
        chances = Chances(numbers[:, :-1], numbers[:, -1])
        drafts = spec.drafts_gpu[torch.from_numpy(rows).to(device)]
        return verify_random(probabilities, torch.from_numpy(first).to(device), drafts, chances).tokens

    def _chances(
        self, rows: Rows, inputs: StepInputs, spec: SpecDecodeMetadata, sampling: SamplingMetadata
    ) -> torch.Tensor:
        """[rows, k + 1] float64. A row with a stream of its own draws as many numbers as it has drafts, and one.

        Other rows hash (runner seed, request, length before the drafts, step): with counts in flight the length alone
        may come twice.
        """
        numbers = np.zeros((rows.size, spec.draft_token_ids.shape[1] + 1))
        for at, row in enumerate(rows.tolist()):
            count = int(spec.expansion.num_draft_tokens[row])
            own = self._numbers(row, count + 1, inputs, sampling)
            numbers[at, :count], numbers[at, -1] = own[:-1], own[-1]
        return torch.from_numpy(numbers)

    def _numbers(self, row: int, count: int, inputs: StepInputs, sampling: SamplingMetadata) -> list[float]:
        stream = sampling.generators.get(row)
        if stream is not None:
            return [stream.number(inputs.step) for _ in range(count)]
        name, length = inputs.req_ids[row], str(inputs.seq_lens[row] - count + 1)
        seeds = (stream_seed(self._seed, "verify", name, length, str(inputs.step), str(i)) for i in range(count))
        return [(seed >> 10) * 2.0**-53 for seed in seeds]


def _masked(logits: torch.Tensor, spec: SpecDecodeMetadata, sampling: SamplingMetadata) -> torch.Tensor:
    """`logits` with each row's forbidden tokens out of reach at all its places."""
    if sampling.forbidden is None:
        return logits
    forbidden = np.repeat(sampling.forbidden, spec.expansion.num_draft_tokens + 1, axis=0)
    return logits.masked_fill(torch.from_numpy(forbidden).to(logits.device), float("-inf"))
