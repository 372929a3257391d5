"""What stands at each of the eight points of a step, as the small arrays that one looks at there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ...runner.attention.metadata import CommonAttentionMetadata
from ...runner.inputs.step_inputs import StepInputs
from ...runner.plan import ExecutionPlan
from ...runner.probe_points import PointName
from ...workloads.step import StepDelta
from .record import facts_text

Facts = Mapping[str, Any]


def describe(name: PointName, facts: Facts) -> str:
    """The facts of point `name` as lines `what=value`. Values are read now: they are live views."""
    chosen = _CHOOSE.get(name)
    return facts_text(chosen(facts) if chosen else facts)


def _update_states(facts: Facts) -> Facts:
    delta = facts["delta"]
    assert isinstance(delta, StepDelta)
    return {
        "req_ids_before": facts["req_ids"],
        "finished": delta.finished_req_ids,
        "new": [request.req_id for request in delta.new_requests],
        "cached": delta.cached.req_ids,
        "resumed": delta.cached.resumed_req_ids,
        "preempted": delta.preempted_req_ids,
        "scheduled": delta.num_scheduled_tokens,
    }


def _slot_mapping(facts: Facts) -> Facts:
    inputs = facts["inputs"]
    assert isinstance(inputs, StepInputs)
    return {
        "req_ids": inputs.req_ids,
        "req_indices": inputs.req_indices,
        "positions": inputs.positions,
        "slot_mapping": inputs.slot_mapping[: inputs.num_tokens],
    }


def _attention_metadata(facts: Facts) -> Facts:
    common, plan = facts["common"], facts["plan"]
    assert isinstance(common, CommonAttentionMetadata)
    assert isinstance(plan, ExecutionPlan)
    return {
        "mode": plan.mode,
        "reason": plan.reason,
        "num_reqs": f"{common.num_actual_reqs} of {common.num_reqs}",
        "num_tokens": f"{common.num_actual_tokens} of {common.num_tokens}",
        "max_query_len": common.max_query_len,
        "max_seq_len": common.max_seq_len,
        "query_start_loc": common.query_start_loc,
        "seq_lens": common.seq_lens,
        "is_prefilling": common.is_prefilling,
        **({} if common.num_decodes is None else {"decodes_first": f"{common.num_decodes} of {common.num_reqs}"}),
        "block_table_shape": list(common.block_table.shape),
        "slot_mapping": common.slot_mapping,
    }


def _plain(facts: Facts) -> Facts:
    """Records among the facts give way to their fields."""
    flat: dict[str, Any] = {}
    for key, value in facts.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            flat |= {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        else:
            flat[key] = value
    return flat


_CHOOSE: dict[PointName, Callable[[Facts], Facts]] = {
    "update_states": _update_states,
    "slot_mapping": _slot_mapping,
    "attention_metadata": _attention_metadata,
    "logits": _plain,
}
