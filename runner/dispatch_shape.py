"""What a graph decision looks at: the step's counts, and whether all of its requests decode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..workloads.step import StepDelta
from .inputs.step_inputs import BoolArray, IntArray, StepInputs
from .state.input_batch import InputBatch


@dataclass(frozen=True, slots=True)
class BatchShape:
    """R requests and Q tokens before padding; `max_query_len` is the most tokens of one request.

    `decoding`: by their state all requests decode, or run as a decode would (`prefill_runs_as_decode`). None where
    nobody looked at their state.
    """

    num_tokens: int
    num_reqs: int
    max_query_len: int
    decoding: bool | None = None


def shape_of_inputs(inputs: StepInputs) -> BatchShape:
    """Of a prepared step, by its counts alone."""
    return BatchShape(inputs.num_tokens, inputs.num_reqs, int(inputs.num_scheduled.max(initial=0)))


def shape_by_state(batch: InputBatch, delta: StepDelta) -> BatchShape:
    """Of a step that is not prepared yet: batch and delta tell all."""
    counts = delta.num_scheduled_tokens.values()
    longest = max(counts, default=0)
    return BatchShape(sum(counts), batch.num_reqs, longest, _all_decode(batch, delta))


def _all_decode(batch: InputBatch, delta: StepDelta) -> bool:
    computed = batch.num_computed[batch.rows]
    prompt = batch.num_prompt[batch.rows]
    inside = np.flatnonzero(computed < prompt)
    if not inside.size:
        return True
    ids = [batch.req_ids[row] for row in inside.tolist()]
    scheduled = _column(delta.num_scheduled_tokens, ids)
    drafts = np.fromiter((len(delta.scheduled_spec_decode_tokens.get(req_id, ())) for req_id in ids), dtype=np.int32)
    return bool(prefill_runs_as_decode(scheduled, computed[inside], prompt[inside], drafts).all())


def _column(values: Mapping[str, int], ids: list[str]) -> IntArray:
    return np.fromiter(map(values.__getitem__, ids), dtype=np.int32, count=len(ids))


def prefill_runs_as_decode(
    num_scheduled: IntArray, num_computed: IntArray, num_prompt: IntArray, num_drafts: IntArray
) -> BoolArray:
    """[R]: inside its prompt, but with one new token over a context: nothing tells it from a decode. A chunk of as many
    tokens as a decode with drafts has is none, nor is a prompt of one token, which has no context (vLLM's V2 rule).
    """
    new: BoolArray = (num_computed < num_prompt) & (num_computed > 0) & (num_scheduled - num_drafts == 1)
    return new


def is_uniform_shape(shape: BatchShape, decode_query_len: int) -> bool:
    """vLLM's V1 rule: every request has exactly as many tokens as a decode has."""
    uniform = shape.num_tokens == shape.max_query_len * shape.num_reqs
    return uniform and shape.max_query_len == decode_query_len


def uniform_token_count(shape: BatchShape) -> int | None:
    """vLLM's V2 rule: the tokens that every request has, where all of them have as many and their state says decode."""
    if not shape.decoding or shape.num_tokens != shape.max_query_len * shape.num_reqs:
        return None
    return shape.max_query_len
