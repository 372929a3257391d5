"""Slot mapping of ranks that each hold a part of every block (see `shards`).

Each way first maps as if one cache held everything, in blocks of all ranks, and takes its rank's part of that. The
Triton kernel takes it in the same pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...errors import UsageError
from ..buffers.ports import InputBuffer
from ..config import SlotMappingBackend
from ..devices.base import Device
from ..shards import Shard, Shards
from ..state.input_batch import InputBatch
from .flat_indices import FlatIndices
from .slot_mapping import (
    DeviceMapper,
    Fence,
    HostSlotMapper,
    KernelStandIn,
    SlotMapper,
    SlotTensors,
    TorchSlotMapper,
)


class ShardedTorchMapper(TorchSlotMapper):
    """Tensor operations, for one rank. `block_size` is that of all ranks together."""

    def __init__(
        self, device: Device, tensors: SlotTensors, block_size: int, fence: Fence, shard: Shard
    ) -> None:
        super().__init__(device, tensors, block_size, fence)
        self._shard = shard

    def _compute(self, num_reqs: int, num_tokens: int) -> None:
        super()._compute(num_reqs, num_tokens)
        slots = self._tensors.slots[:num_tokens]
        slots.copy_(self._shard.slots(slots))


class ShardedStandIn(KernelStandIn):
    """What the Triton kernel does for one rank, where there is no GPU."""

    def __init__(
        self, device: Device, tensors: SlotTensors, block_size: int, fence: Fence, shard: Shard
    ) -> None:
        super().__init__(device, tensors, block_size, fence)
        self._shard = shard

    def _compute(self, num_reqs: int, num_tokens: int) -> None:
        super()._compute(num_reqs, num_tokens)
        slots = self._slots[:num_tokens]
        slots[:] = self._shard.slots(slots)


class ShardedTritonMapper(DeviceMapper):
    """The Triton kernel for one rank; needs a GPU."""

    def __init__(
        self, device: Device, tensors: SlotTensors, block_size: int, fence: Fence, shard: Shard
    ) -> None:
        from .slot_kernel import SlotKernel

        self._kernel = SlotKernel(
            tensors.query_start_loc, tensors.positions, tensors.block_table,
            (tensors.slots, tensors.logits_indices), block_size, shard,
        )  # fmt: skip
        super().__init__(device, fence)

    def _compute(self, num_reqs: int, num_tokens: int) -> None:
        self._kernel(num_reqs, num_tokens)


class ShardedHostMapper:
    """The host's mapping for all ranks, rank by rank behind each other in one buffer [ranks * T] and one copy."""

    reads_table = False

    def __init__(
        self, slots: InputBuffer, logits_indices: InputBuffer, block_size: int, fence: Fence, shards: Shards
    ) -> None:
        self._slots, self._shards, self._fence = slots, shards, fence
        self._whole = _Scratch(slots.gpu.numel() // shards.ranks)
        self._mapper = HostSlotMapper(self._whole, logits_indices, block_size, _later)

    def map(self, batch: InputBatch, flat: FlatIndices, consumes: Sequence[int]) -> None:
        """Compute, cut, then copy."""
        self._mapper.map(batch, flat, consumes)
        slots = self._slots.acquire()
        for shard, own in zip(self._shards, slots.reshape(self._shards.ranks, -1), strict=True):
            own[:] = shard.slots(self._whole.values)
        self._slots.publish(slots.size)
        self._fence()


class _Scratch:
    """A staged buffer that stays on the host."""

    def __init__(self, size: int) -> None:
        self.values: npt.NDArray[np.int64] = np.empty(size, dtype=np.int64)
        self.gpu = torch.from_numpy(self.values)
        self.gpus = (self.gpu,)

    def acquire(self) -> npt.NDArray[Any]:
        """The memory itself."""
        return self.values

    def publish(self, count: int) -> int:
        """Nothing travels."""
        return 0


def _later() -> None:
    """The copy of the slots is still to come."""


def make_sharded_mapper(
    kind: SlotMappingBackend, device: Device, tensors: SlotTensors, block_size: int, fence: Fence, shard: Shard
) -> SlotMapper:
    """As `make_device_mapper`, for one rank; `block_size` is that of all ranks together, tensors are the rank's."""
    if kind == "torch":
        return ShardedTorchMapper(device, tensors, block_size, fence, shard)
    if kind != "triton":
        raise UsageError(f"slot_mapping: unknown value {kind!r}; known are triton, torch, host")
    on_gpu = device.tensor_device.type == "cuda"
    made = ShardedTritonMapper if on_gpu else ShardedStandIn
    return made(device, tensors, block_size, fence, shard)
