"""The step stream of a point without running it: its requests against its scheduler, with modelled step times.

A step lasts as long as its forward by the calibrated curves (the captured graph, attention over what it reads) and
`OUTSIDE_NS` for all that is not the decoder. That time decides only which requests have arrived by which step; it is no
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from ...analysis.sizes.costs import SizesCosts
from ...analysis.sizes.stream import SizesStream
from ...runner.devices.base import Work
from ...runner.devices.calibration import load_calibration
from ...runner.devices.costs import CostModel
from ...workloads.driver import deltas
from ...workloads.step import StepDelta
from ...workloads.workload import Workload
from ..spec import PointSpec
from .watch import UNWATCHED, SizesWatch

OUTSIDE_NS = 500_000
"""Assumed: preparation, head and sampling of a step, about what a synchronous step of an H200 has beside its forward.
"""
MOST_STEPS = 4096
"""Steps that are looked at for `capture_sizes: optimal`."""


class ModelledTime:
    """Duration of a step with the ascending `sizes` captured."""

    def __init__(self, spec: PointSpec, costs: SizesCosts, sizes: Sequence[int]) -> None:
        self._model = CostModel(load_calibration(spec.calibration), spec.cost_model)
        largest = int(costs.eager.sizes[-1])
        tokens = np.arange(1, largest + 1, dtype=np.int64)
        self._forward_ns = costs.without_attention().step_ns(sizes, tokens).tolist()

    def __call__(self, delta: StepDelta) -> int:
        """ns of one step."""
        tokens = delta.total_num_scheduled_tokens
        if not tokens:
            return OUTSIDE_NS
        forward_ns = int(self._forward_ns[min(tokens, len(self._forward_ns)) - 1])
        return OUTSIDE_NS + forward_ns + self._model.attention_ns(_attention(delta))


def _attention(delta: StepDelta) -> Work:
    """KV positions that single queries read, and pairs of rows with several queries."""
    kv_tokens = pairs = 0
    known = zip(delta.cached.req_ids, delta.cached.num_computed_tokens, strict=True)
    fresh = ((request.req_id, request.num_computed_tokens) for request in delta.new_requests)
    for req_id, computed in (*known, *fresh):
        queries = delta.num_scheduled_tokens.get(req_id, 0)
        if queries == 1:
            kv_tokens += computed + 1
        else:
            pairs += queries * computed + queries * (queries + 1) // 2
    return Work("forward", kv_tokens=kv_tokens, prefill_pairs=pairs)


def dry_stream(
    spec: PointSpec, workload: Workload, costs: SizesCosts, sizes: Sequence[int], most_steps: int | None = None,
    watch: SizesWatch = UNWATCHED,
) -> SizesStream:  # fmt: skip
    """Token counts of the steps that may replay a graph under the point's graph mode, `sizes` captured meanwhile.

    Where graphs are for decodes alone, a step counts as a decode when every request has a decode's tokens. `watch`
    hears of answered requests; interrupted, the stream ends where it is.
    """
    decodes_only = spec.runner.graph_mode == "full_decode_only"
    query_len = spec.runner.decode_query_len
    tokens, numbers, left_out, answered = [], [], 0, 0
    for delta in islice(deltas(workload, step_time=ModelledTime(spec, costs, sizes)), most_steps):
        if watch.interrupted:
            break
        answered += len(delta.finished_req_ids)
        watch.to(answered)
        scheduled = delta.num_scheduled_tokens.values()
        if not scheduled:
            continue
        if decodes_only and any(count != query_len for count in scheduled):
            left_out += 1
        else:
            tokens.append(sum(scheduled))
            numbers.append(delta.step)
    return SizesStream(np.array(tokens, dtype=np.int64), np.array(numbers, dtype=np.int64), left_out)
