"""From a step's inputs and its plan to what attention sees, padding included."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from ..inputs.step_inputs import BoolArray, GroupTensors, IntArray, StepInputs
from ..plan import ExecutionPlan
from ..probe_points import ProbePoints
from .layers import LayerMetadata
from .metadata import CommonAttentionMetadata
from .split import leading_decodes

S = TypeVar("S", bound=np.generic)


class DeviceViews(NamedTuple):
    """Prefixes of the fixed device buffers for R' rows and Q' tokens."""

    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    groups: tuple[GroupTensors, ...]
    positions: torch.Tensor


def device_views(inputs: StepInputs, rows: int, tokens: int) -> DeviceViews:
    """Longer views are all that padding costs: the buffers already carry legal tails (slots -1, null blocks, length 0,
    boundaries that repeat Q).
    """
    return DeviceViews(
        query_start_loc=inputs.query_start_loc_gpu[: rows + 1],
        seq_lens=inputs.seq_lens_gpu[:rows],
        groups=tuple(GroupTensors(group.block_table[:rows], group.slots[..., :tokens]) for group in inputs.groups),
        positions=inputs.positions_gpu[:tokens],
    )


def common_metadata(
    inputs: StepInputs, plan: ExecutionPlan, views: DeviceViews | None = None
) -> CommonAttentionMetadata:
    """The facts that every backend shares; `views` saves making them again."""
    rows, longest = plan.padded_reqs, int(inputs.num_scheduled.max())
    views = views or device_views(inputs, rows, plan.padded_tokens)
    return CommonAttentionMetadata(
        num_reqs=rows,
        num_actual_reqs=inputs.num_reqs,
        num_tokens=plan.padded_tokens,
        num_actual_tokens=inputs.num_tokens,
        max_query_len=longest,
        max_seq_len=int(inputs.seq_lens.max()),
        query_start_loc=views.query_start_loc,
        seq_lens=views.seq_lens,
        block_table=views.groups[0].block_table,
        slot_mapping=views.groups[0].slots,
        positions=views.positions,
        query_start_loc_cpu=pad_boundaries(inputs.query_start_loc, rows),
        seq_lens_cpu=_pad(inputs.seq_lens, rows),
        is_prefilling=pad_prefilling(inputs.is_prefilling, rows),
        uniform=plan.uniform and longest == 1,
    )


def pad_boundaries(query_start_loc: IntArray, num_reqs: int) -> IntArray:
    """[R + 1] -> [num_reqs + 1], the tail repeating Q: padding requests are empty intervals."""
    missing = num_reqs + 1 - query_start_loc.size
    return np.pad(query_start_loc, (0, missing), mode="edge") if missing else query_start_loc


def pad_prefilling(is_prefilling: BoolArray, num_reqs: int) -> BoolArray:
    """[R] -> [num_reqs]: rows behind the batch prefill nothing, whatever a former owner did there."""
    return _pad(is_prefilling, num_reqs)


def _pad(values: npt.NDArray[S], size: int) -> npt.NDArray[S]:
    """Zeros (or False) behind `values`, up to `size`."""
    missing = size - values.size
    return np.pad(values, (0, missing)) if missing else values


_MAX_VIEWS = 256


class MetadataBuilder:
    """Builds common metadata once a step, and from it what each layer's attention takes. `decode_query_len` is given
    where batches have their decodes first, and then the border is looked for.

    Serves one runner: device buffers keep their addresses, so their views are kept by shape.
    """

    def __init__(self, layers: LayerMetadata, points: ProbePoints, decode_query_len: int | None = None) -> None:
        self._layers = layers
        self._decode_query_len = decode_query_len
        self._points = points
        self._views: dict[tuple[int, int, int], DeviceViews] = {}
        self.common: CommonAttentionMetadata | None = None
        """Of the last step and the first KV cache group, for checks and observers."""

    def build(self, inputs: StepInputs, plan: ExecutionPlan) -> tuple[object, ...]:
        """The backend's metadata of this step, one object a layer."""
        views = self._views_of(inputs, plan)
        self.common = common_metadata(inputs, plan, views)
        if self._decode_query_len is not None:
            lens = np.diff(self.common.query_start_loc_cpu)
            self.common = replace(self.common, num_decodes=leading_decodes(lens, self._decode_query_len))
        if self._points.active:
            self._points.reach("attention_metadata", common=self.common, plan=plan)
        return self._layers.build(self.common, views.groups)

    def _views_of(self, inputs: StepInputs, plan: ExecutionPlan) -> DeviceViews:
        shape = plan.padded_reqs, plan.padded_tokens
        key = (inputs.buffer_set, *shape)
        views = self._views.get(key)
        if views is None:
            if len(self._views) >= _MAX_VIEWS:
                self._views.clear()
            views = self._views[key] = device_views(inputs, *shape)
        return views
