"""What the scheduler said and what the sampler returned, kept apart from the code that is checked.

The checks compare the runner's arrays with this record, never with each other alone: a merge that is wrong in both
views of a request would otherwise agree with itself.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np

from ...workloads.step import SamplingParams, StepDelta, StepResult, TokenIds


def _int32_array() -> array[int]:
    return array("i")


@dataclass(slots=True)
class RequestTruth:
    """One live request as the deltas describe it."""

    prompt: TokenIds
    sampling: SamplingParams
    num_computed: int
    blocks: array[int]
    outputs: array[int] = field(default_factory=_int32_array)

    @property
    def num_tokens(self) -> int:
        """Prompt and visible output tokens."""
        return int(self.prompt.size) + len(self.outputs)

    def history(self) -> bytes:
        """All tokens as int32 bytes, for comparison."""
        return np.ascontiguousarray(self.prompt, dtype=np.int32).tobytes() + self.outputs.tobytes()


class Truth:
    """Every request that was announced and not finished."""

    def __init__(self) -> None:
        self.requests: dict[str, RequestTruth] = {}

    def follow(self, delta: StepDelta) -> None:
        """Take in a delta; call it for every step, checked or not."""
        requests, cached = self.requests, delta.cached
        for req_id in delta.finished_req_ids:
            requests.pop(req_id, None)
        for new in delta.new_requests:
            blocks = array("i", new.block_ids[0])
            requests[new.req_id] = RequestTruth(new.prompt_token_ids, new.sampling, new.num_computed_tokens, blocks)
        for req_id, computed, blocks_of in zip(
            cached.req_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True
        ):
            truth = requests[req_id]
            truth.num_computed = computed
            if req_id in cached.resumed_req_ids:
                truth.blocks = array("i")
            if blocks_of is not None:
                truth.blocks.extend(blocks_of[0])
        for req_id, history in cached.all_token_ids.items():
            truth = requests[req_id]
            truth.outputs = array("i", history[truth.prompt.size :].tolist())

    def saw(self, result: StepResult) -> None:
        """Take in the tokens that became visible."""
        for req_id, tokens in result.sampled.items():
            self.requests[req_id].outputs.extend(tokens)
