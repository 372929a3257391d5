"""The object view of one request: what control logic asks by request id, whether or not the request has a row."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from ...workloads.step import SamplingParams, TokenIds


def _int32_array() -> array[int]:
    return array("i")


@dataclass(slots=True)
class CachedRequestState:
    """A request that this worker still knows. "Cached" means kept by the worker, not found in a prefix cache.

    The input batch holds the same facts by row, for the numeric path. A request that is not scheduled in a step
    loses its row but keeps this object; only a finished request loses both.

    `output_token_ids` and `block_ids` are int32 arrays with the buffer protocol: they grow cheaply and are read as
    NumPy arrays without a copy. Hazard: an array that is being viewed cannot grow, so views must not outlive a step.
    """

    req_id: str
    prompt_token_ids: TokenIds  # [prompt_len] int32
    block_ids: array[int]  # of the one KV cache group, oldest first
    num_computed_tokens: int
    sampling: SamplingParams
    output_token_ids: array[int] = field(default_factory=_int32_array)
    generator: torch.Generator | None = None

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt."""
        return int(self.prompt_token_ids.size)

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens that exist so far."""
        return int(self.prompt_token_ids.size) + len(self.output_token_ids)

    def outputs(self) -> npt.NDArray[np.int32]:
        """The output tokens as an array view [num_outputs]; do not keep it."""
        return np.frombuffer(self.output_token_ids, dtype=np.int32)

    def blocks(self) -> npt.NDArray[np.int32]:
        """The block ids as an array view [num_blocks]; do not keep it."""
        return np.frombuffer(self.block_ids, dtype=np.int32)

    def replace_history(self, token_ids: TokenIds) -> None:
        """Take the scheduler's word for prompt plus outputs (it re-sends them when the request was away)."""
        self.output_token_ids = array("i", token_ids[self.num_prompt_tokens :].tolist())


def make_generator(sampling: SamplingParams, device: torch.device) -> torch.Generator | None:
    """The request's own random stream; None when it has no seed of its own."""
    if sampling.seed is None:
        return None
    generator = torch.Generator(device=device)
    generator.manual_seed(sampling.seed)
    return generator
