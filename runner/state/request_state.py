"""The object view of one request: what control logic asks by request id, whether or not the request has a row."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...workloads.step import PLACEHOLDER, BlockIds, SamplingParams, TokenIds
from .seeded_stream import SeededStream

NEVER = -1


def _int32_array() -> array[int]:
    return array("i")


@dataclass(slots=True)
class CachedRequestState:
    """A request that this worker still knows. "Cached" means kept by the worker, not found in a prefix cache.

    The input batch holds the same facts by row, for the numeric path. A request that is not scheduled in a step
    loses its row but keeps this object; only a finished request loses both.

    `output_token_ids` and each of `block_ids` are int32 arrays with the buffer protocol: they grow cheaply and are read
    as NumPy arrays without a copy. Hazard: an array that is being viewed cannot grow, so views must not outlive a step.

    valid_from_step  what earlier steps sampled and had not brought back when the request was preempted is dropped
    collected_step   the last step whose token has come back
    """

    req_id: str
    prompt_token_ids: TokenIds  # [prompt_len] int32
    block_ids: tuple[array[int], ...]  # manager blocks of each KV cache group, oldest first
    num_computed_tokens: int
    sampling: SamplingParams
    output_token_ids: array[int] = field(default_factory=_int32_array)
    generator: SeededStream | None = None
    valid_from_step: int = 0
    collected_step: int = NEVER

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

    def replace_history(self, token_ids: TokenIds) -> None:
        """Take the scheduler's word for prompt plus outputs (it re-sends them when the request was away)."""
        self.output_token_ids = array("i", token_ids[self.num_prompt_tokens :].tolist())

    def drop_in_flight(self, step: int) -> None:
        """It was preempted in `step`: tokens of earlier steps that are still in flight count for nothing."""
        self.valid_from_step = step
        known = len(self.output_token_ids)
        while known and self.output_token_ids[known - 1] == PLACEHOLDER:
            known -= 1
        if known == len(self.output_token_ids):
            return
        del self.output_token_ids[known:]
        if self.generator is not None:
            self.generator.give_back(self.collected_step)


def own_blocks(block_ids: BlockIds) -> tuple[array[int], ...]:
    """Arrays of a request's own, one a KV cache group."""
    return tuple([array("i", ids) for ids in block_ids])


def make_generator(sampling: SamplingParams) -> SeededStream | None:
    """The request's own random stream; None when it has no seed of its own."""
    return None if sampling.seed is None else SeededStream(sampling.seed)
