"""The article's record of one step: a dozen small arrays that rebuild the chain of causes, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...runner.inputs.step_inputs import StepInputs

MAX_ITEMS = 64
"""Longer arrays are cut in the text: who needs more should make the case smaller."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """Copies of what a step was made of; R requests in row order, Q tokens. `block_rows` is read off the device."""

    step: int
    req_ids: tuple[str, ...]
    scheduled: npt.NDArray[np.int32]  # [R]
    computed: npt.NDArray[np.int32]  # [R]
    query_start_loc: npt.NDArray[np.int32]  # [R + 1]
    req_indices: npt.NDArray[np.int32]  # [Q]
    query_pos: npt.NDArray[np.int32]  # [Q]
    positions: npt.NDArray[np.int64]  # [Q]
    seq_lens: npt.NDArray[np.int32]  # [R]
    block_rows: dict[str, list[int]]
    slot_mapping: npt.NDArray[np.int64]  # [Q]
    logits_indices: npt.NDArray[np.int64]  # [R]
    discard: npt.NDArray[np.bool_]  # [R]


def take_record(inputs: StepInputs, num_blocks: Mapping[str, int]) -> StepRecord:
    """Copy the record out of live `inputs`; `num_blocks` says how much of each request's row is in use."""
    table = inputs.block_table_gpu
    rows = {
        req_id: table[row, : num_blocks[req_id]].tolist() for row, req_id in enumerate(inputs.req_ids)
    }  # fmt: skip
    return StepRecord(
        step=inputs.step,
        req_ids=inputs.req_ids,
        scheduled=inputs.num_scheduled.copy(),
        computed=inputs.num_computed.copy(),
        query_start_loc=inputs.query_start_loc.copy(),
        req_indices=inputs.req_indices.copy(),
        query_pos=inputs.query_pos.copy(),
        positions=inputs.positions.copy(),
        seq_lens=inputs.seq_lens.copy(),
        block_rows=rows,
        slot_mapping=inputs.slot_mapping[: inputs.num_tokens].cpu().numpy().copy(),
        logits_indices=inputs.logits_indices.copy(),
        discard=inputs.discard.copy(),
    )


ARTICLE_FIELDS = (
    "req_ids", "scheduled", "computed", "query_start_loc", "positions", "seq_lens", "block_rows", "slot_mapping",
    "logits_indices", "discard",
)  # fmt: skip
ALL_FIELDS = (*ARTICLE_FIELDS[:4], "req_indices", "query_pos", *ARTICLE_FIELDS[4:])


def record_text(record: StepRecord, *, all_fields: bool = False) -> str:
    """The article's ten lines, or all twelve."""
    names = ALL_FIELDS if all_fields else ARTICLE_FIELDS
    return "".join(f"{name}={value_text(getattr(record, name))}\n" for name in names)


def facts_text(facts: Mapping[str, Any]) -> str:
    """What stands at a probe point, one line a fact."""
    return "".join(f"{name}={value_text(value)}\n" for name, value in facts.items())


def value_text(value: object) -> str:
    """`['A','B']`, `{A:[1,2], B:[5]}`, `[False,True]`: the article's way of writing."""
    if isinstance(value, torch.Tensor):
        value = value.cpu().numpy()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}:{value_text(below)}" for key, below in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return _listed(sorted(value))
    if isinstance(value, list | tuple):
        return _listed(value)
    return repr(value) if isinstance(value, str) else str(value)


def _listed(values: Iterable[object]) -> str:
    items = list(values)
    texts = [value_text(item) for item in items[:MAX_ITEMS]]
    if len(items) > MAX_ITEMS:
        texts.append(f"... {len(items) - MAX_ITEMS} more")
    return "[" + ",".join(texts) + "]"
