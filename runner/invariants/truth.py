"""What the scheduler said and what the sampler returned, kept apart from the code that is checked.

The checks compare the runner's arrays with this record, never with each other alone: a merge that is wrong in both
views of a request would otherwise agree with itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ...workloads.step import BlockIds, SamplingParams, StepDelta, StepResult, TokenIds

IN_FLIGHT = -1
"""Stands for a token that a submitted step samples, until it has come back."""


def _int32_array() -> array[int]:
    return array("i")


def _arrays(block_ids: BlockIds) -> tuple[array[int], ...]:
    return tuple(array("i", ids) for ids in block_ids)


@dataclass(slots=True)
class RequestTruth:
    """One live request as the deltas describe it."""

    prompt: TokenIds
    sampling: SamplingParams
    num_computed: int
    blocks: tuple[array[int], ...]  # manager blocks, group by group
    outputs: array[int] = field(default_factory=_int32_array)
    valid_from_step: int = 0  # tokens of earlier steps that were in flight when it was preempted never count

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens, those in flight included."""
        return int(self.prompt.size) + len(self.outputs)

    def preempt(self, step: int) -> None:
        """What is in flight is lost."""
        self.valid_from_step = step
        while self.outputs and self.outputs[-1] == IN_FLIGHT:
            self.outputs.pop()

    def history(self) -> bytes:
        """All tokens as int32 bytes, for comparison."""
        return np.ascontiguousarray(self.prompt, dtype=np.int32).tobytes() + self.outputs.tobytes()

    def prompt_and_outputs(self) -> TokenIds:
        """[num_tokens] all tokens, IN_FLIGHT among them; a copy."""
        return np.frombuffer(self.history(), dtype=np.int32)


class Truth:
    """Every request that was announced and not finished."""

    def __init__(self) -> None:
        self.requests: dict[str, RequestTruth] = {}
        self._kept: dict[int, dict[str, tuple[RequestTruth, int]]] = {}  # by step: places that wait for its tokens

    def follow(self, delta: StepDelta) -> None:
        """Take in a delta; call it for every step, checked or not."""
        requests, cached = self.requests, delta.cached
        for req_id in delta.finished_req_ids:
            requests.pop(req_id, None)
        for req_id in {*delta.preempted_req_ids, *cached.resumed_req_ids} & requests.keys():
            requests[req_id].preempt(delta.step)
        for new in delta.new_requests:
            blocks = _arrays(new.block_ids)
            requests[new.req_id] = RequestTruth(new.prompt_token_ids, new.sampling, new.num_computed_tokens, blocks)
        for req_id, computed, blocks_of in zip(
            cached.req_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True
        ):
            truth = requests[req_id]
            truth.num_computed = computed
            if req_id in cached.resumed_req_ids:
                truth.blocks = tuple(array("i") for _ in truth.blocks)
            for own, added in zip(truth.blocks, blocks_of or (), strict=blocks_of is not None):
                own.extend(added)
        for req_id, history in cached.all_token_ids.items():
            truth = requests[req_id]
            truth.outputs = array("i", history[truth.prompt.size :].tolist())

    def submitted(self, delta: StepDelta, sampling: Iterable[str]) -> None:
        """A step was enqueued that samples a token for each of `sampling`, and may accept its drafts."""
        kept = self._kept[delta.step] = {}
        for req_id in sampling:
            truth, count = self.requests[req_id], 1 + len(delta.scheduled_spec_decode_tokens.get(req_id, ()))
            kept[req_id] = truth, count
            truth.outputs.extend((IN_FLIGHT,) * count)

    def saw(self, result: StepResult) -> None:
        """Take in the tokens that became visible, at the first of the places that were kept for them."""
        kept = self._kept.pop(result.step, {})
        for req_id, tokens in result.sampled.items():
            truth, count = kept[req_id]
            if truth.valid_from_step <= result.step:
                place = truth.outputs.index(IN_FLIGHT)
                truth.outputs[place : place + count] = array("i", tokens)
