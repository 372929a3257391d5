"""From a step's inputs and its plan to what attention sees, padding included."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..inputs.step_inputs import BoolArray, IntArray, StepInputs
from ..plan import ExecutionPlan
from ..probe_points import ProbePoints
from .metadata import AttentionBackend, CommonAttentionMetadata


def common_metadata(inputs: StepInputs, plan: ExecutionPlan) -> CommonAttentionMetadata:
    """The facts that every backend shares.

    Padding costs no copy: the device buffers already carry legal tails (slots -1, null blocks, length 0, boundaries
    that repeat Q), so a padded step only takes longer views of them.
    """
    rows = plan.padded_reqs
    return CommonAttentionMetadata(
        num_reqs=rows,
        num_actual_reqs=inputs.num_reqs,
        num_tokens=plan.padded_tokens,
        num_actual_tokens=inputs.num_tokens,
        max_query_len=int(inputs.num_scheduled.max(initial=0)),
        max_seq_len=int(inputs.seq_lens.max(initial=0)),
        query_start_loc=inputs.query_start_loc_gpu[: rows + 1],
        seq_lens=inputs.seq_lens_gpu[:rows],
        block_table=inputs.block_table_gpu[:rows],
        slot_mapping=inputs.slot_mapping[: plan.padded_tokens],
        positions=inputs.positions_gpu[: plan.padded_tokens],
        query_start_loc_cpu=pad_boundaries(inputs.query_start_loc, rows),
        seq_lens_cpu=_pad(inputs.seq_lens, rows),
        is_prefilling=pad_prefilling(inputs.is_prefilling, rows),
    )


def pad_boundaries(query_start_loc: IntArray, num_reqs: int) -> IntArray:
    """[R + 1] -> [num_reqs + 1], the tail repeating Q: padding requests are empty intervals."""
    missing = num_reqs + 1 - query_start_loc.size
    return np.pad(query_start_loc, (0, missing), mode="edge") if missing else query_start_loc


def pad_prefilling(is_prefilling: BoolArray, num_reqs: int) -> BoolArray:
    """[R] -> [num_reqs]: rows behind the batch prefill nothing, whatever a former owner did there."""
    return _pad(is_prefilling, num_reqs)


def _pad(values: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.generic]:  # type: ignore[type-arg]
    missing = size - values.size
    return np.pad(values, (0, missing)) if missing else values


class MetadataBuilder:
    """Builds common metadata once a step and hands it to the backend, whose result all layers share."""

    def __init__(self, backend: AttentionBackend, points: ProbePoints) -> None:
        self._backend = backend
        self._points = points
        self.common: CommonAttentionMetadata | None = None
        """Of the last step, for checks and observers."""

    def build(self, inputs: StepInputs, plan: ExecutionPlan) -> object:
        """The backend's metadata of this step."""
        self.common = common_metadata(inputs, plan)
        if self._points.active:
            self._points.reach("attention_metadata", common=self.common, plan=plan)
        return self._backend.build(self.common)
