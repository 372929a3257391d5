"""The explicit mask of a step: one boolean for every query and every key, written on the host and copied.

    rows of 3 and 2 keys, of which the last 2 and the last 1 are queries, and a token of padding

                 keys of the first row   of the second
    query 0          1  1  0               0  0
    query 1          1  1  1               0  0
    query 2          0  0  0               1  1
    padding          0  0  0               0  0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ...instrumentation.probe.ledger import Ledger
from ..buffers.factory import BufferFactory
from ..buffers.growing import GrowingBuffer
from ..config import RunnerConfig
from ..devices.base import Device
from .metadata import CommonAttentionMetadata

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ExplicitMask:
    """What each query of the step sees, and whose the keys are.

    visible    [Q', K] bool on the device: K keys of all rows that have queries, row behind row
    rows       [n] int64, those rows
    num_keys   [n] int32, keys of each, as the host counts them
    """

    visible: torch.Tensor
    rows: npt.NDArray[np.intp]
    num_keys: npt.NDArray[np.int32]


class StepMasks:
    """Writes and copies the masks of a step, in a buffer for each window that layers see through.

    The buffers grow with the largest step, and a step's copy is Q' x K bytes. They belong to no set of device buffers:
    copies run on the compute stream, so that the forward before has read its mask when the next one arrives.
    """

    def __init__(self, make: Callable[[str], GrowingBuffer], empty: Callable[[Sequence[int]], torch.Tensor]) -> None:
        self._make = make
        self._empty = empty
        self._buffers: dict[int | None, GrowingBuffer] = {}

    def stage(self, common: CommonAttentionMetadata) -> ExplicitMask:
        """The mask of this step, good until the next one is staged for the same window."""
        queries = np.diff(common.query_start_loc_cpu)
        rows = np.flatnonzero(queries)
        num_keys = common.seq_lens_cpu[rows]
        shape = common.num_tokens, int(num_keys.sum(dtype=np.int64))
        size = shape[0] * shape[1]
        if not size:  # a capture, on padding alone
            return ExplicitMask(self._empty(shape), rows, num_keys)
        buffer = self._buffer(common.window)
        visible: BoolArray = buffer.acquire(size)[:size].reshape(shape)
        visible.fill(False)
        for queries_of_row, keys_of_row in _places(common, rows, num_keys):
            visible[queries_of_row, keys_of_row] = causal(visible[queries_of_row, keys_of_row].shape, common.window)
        buffer.publish(size)
        return ExplicitMask(buffer.gpu[:size].view(shape), rows, num_keys)

    def _buffer(self, window: int | None) -> GrowingBuffer:
        if window not in self._buffers:
            self._buffers[window] = self._make("attention_mask" if window is None else f"attention_mask.{window}")
        return self._buffers[window]


def _places(
    common: CommonAttentionMetadata, rows: npt.NDArray[np.intp], num_keys: npt.NDArray[np.int32]
) -> Iterator[tuple[slice, slice]]:
    """Where each row's queries and keys stand in the mask."""
    starts = common.query_start_loc_cpu
    ends = np.cumsum(num_keys, dtype=np.int64).tolist()
    for row, count, end in zip(rows.tolist(), num_keys.tolist(), ends, strict=True):
        yield slice(int(starts[row]), int(starts[row + 1])), slice(end - count, end)


def causal(shape: tuple[int, int], window: int | None) -> BoolArray:
    """[q, k]: what the last q of k positions see, each itself and what lies before it, `window` positions in all."""
    history = shape[1] - shape[0]
    seen: BoolArray = np.tri(*shape, k=history, dtype=np.bool_)
    return seen if window is None else seen & ~np.tri(*shape, k=history - window, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class MaskSite:
    """The masks of a runner, and how the rows of `buffers` that wait for a checksum are written."""

    masks: StepMasks
    flush: Callable[[], None]


def make_masks(config: RunnerConfig, device: Device, ledger: Ledger) -> MaskSite | None:
    """What the switch `attention_mask` asks for; None where attention knows by itself who sees whom."""
    if config.attention_mask == "implicit":
        return None
    buffers = BufferFactory(
        device, ledger, config.staging, ring_slots=config.ring_slots, verify=config.verify_copies
    )
    least = config.max_num_batched_tokens
    masks = StepMasks(
        lambda name: buffers.growing(name, least, torch.bool), lambda shape: device.empty(tuple(shape), torch.bool)
    )
    return MaskSite(masks, buffers.flush)
