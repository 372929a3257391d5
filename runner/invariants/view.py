"""One step, laid open for the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...workloads.step import StepDelta
from ..attention.metadata import CommonAttentionMetadata
from ..inputs.step_inputs import IntArray, LongArray, StepInputs
from ..kv_groups import NULL_BLOCK, KVGroup, row_blocks
from ..state.input_batch import InputBatch
from ..state.request_state import CachedRequestState
from .truth import RequestTruth


@dataclass(frozen=True, slots=True)
class StepView:
    """What a check may look at. What is expected comes from the scheduler's own words, in the batch's row order.

    truths              R requests
    expected_scheduled, expected_computed  [R] int32
    expected_rows       [Q] int64, owner of each flat token
    in_flight           tokens that are on the device only, by request: what the step before this one sampled
    expected_positions  [Q] int64, computed + offset in the chunk
    rejected            [R] int32, drafts that the counts still take for accepted and that only the device knows to be
                        rejected: positions and lengths there are lower by these
    proposed            drafts that are on the device only, by request: what was proposed behind the step before
    """

    delta: StepDelta
    requests: Mapping[str, CachedRequestState]
    batch: InputBatch
    inputs: StepInputs
    common: CommonAttentionMetadata | None
    truths: tuple[RequestTruth, ...]
    in_flight: Mapping[str, int]
    expected_scheduled: IntArray
    expected_computed: IntArray
    expected_rows: LongArray
    expected_positions: LongArray
    rejected: IntArray
    proposed: Mapping[str, tuple[int, ...]]
    groups: tuple[KVGroup, ...]

    @property
    def device_positions(self) -> LongArray:
        """[Q] where the device has to compute each token."""
        return self.expected_positions - self.rejected[self.expected_rows]

    def kernel_blocks(self, row: int, group: int) -> IntArray:
        """[n] kernel blocks that the row's table has to show: what the request owns, null below a sliding window."""
        of = self.groups[group]
        blocks = row_blocks(self.truths[row].blocks[group], of.ratio).copy()  # it may be a view of what is recorded
        blocks[: self._first_seen(row, of, of.slack)] = NULL_BLOCK
        return blocks

    def num_unseen(self, row: int, group: int) -> int:
        """How many of these no query sees any more. They may be null before they have to: what was counted once may
        have been more, with drafts that were rejected since.
        """
        return self._first_seen(row, self.groups[group], int(self.rejected[row]))

    def _first_seen(self, row: int, of: KVGroup, doubtful: int) -> int:
        """The first kernel block that a query sees when `doubtful` of the computed tokens do not count."""
        if of.window is None:
            return 0
        first = int(self.expected_computed[row]) - doubtful - of.window + 1
        return max(first, 0) // of.block_size * of.ratio


def host(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """A device tensor's contents. Synchronises on a real device; checks are not part of what is measured."""
    array: npt.NDArray[Any] = tensor.cpu().numpy()
    return array


def slots_of(view: StepView, group: int) -> LongArray:
    """[T] a group's slots on the device, those of all ranks as slots of the whole (see `shards`)."""
    return view.groups[group].shards.whole(host(view.inputs.groups[group].slots))


def first_difference(got: npt.NDArray[Any], wanted: npt.NDArray[Any], what: str) -> str | None:
    """None when equal, else one line with the first index that differs."""
    if got.shape != wanted.shape:
        return f"{what} has shape {got.shape}, not {wanted.shape}"
    wrong = np.flatnonzero(got != wanted)
    if not wrong.size:
        return None
    index = int(wrong[0])
    return f"{what}[{index}] is {got[index]}, not {wanted[index]}"
