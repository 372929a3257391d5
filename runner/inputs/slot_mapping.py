"""Where each token's K and V go: slot = block_table[row, position // B] * B + position % B, in 64 bits.

A position in the null block has no slot (-1): it lies below a sliding window, and nobody will read it again.
The same pass derives `logits_indices`, the last token of each request, so that nobody has to copy it. A request
without tokens gets index 0, never -1; its result is discarded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from ...errors import UsageError
from ..buffers.device_sets import DeviceSets
from ..buffers.ports import InputBuffer
from ..config import SlotMappingBackend
from ..devices.base import Device, Work
from ..kv_groups import NULL_BLOCK
from ..state.input_batch import InputBatch
from .flat_indices import FlatIndices

PAD_SLOT = -1


@dataclass(frozen=True, slots=True)
class SlotTensors:
    """Fixed device tensors that the mapping of one KV cache group reads and writes; shapes as in StepInputs."""

    query_start_loc: torch.Tensor
    positions: torch.Tensor
    block_table: torch.Tensor
    slots: torch.Tensor
    logits_indices: torch.Tensor


Fence = Callable[[], None]
"""Called behind the last copy of the step and before the first operation that reads one."""


class SlotMapper(Protocol):
    """One way to compute the slots of a step. The mapper calls its fence, because a mapper may copy as well.

    `reads_table`: it reads the block table on the device, so it comes behind the table's copy.
    """

    reads_table: bool

    def map(self, batch: InputBatch, flat: FlatIndices, consumes: Sequence[int]) -> None:
        """Fill slots (-1 behind Q) and logits_indices; `consumes` are the copies that this reads first."""
        ...


class DeviceMapper(ABC):
    """A mapper that is one launch on the device; what it launches is `_compute` of a subclass."""

    reads_table = True

    def __init__(self, device: Device, fence: Fence) -> None:
        self._device = device
        self._fence = fence

    def map(self, batch: InputBatch, flat: FlatIndices, consumes: Sequence[int]) -> None:
        """One launch."""
        num_reqs, num_tokens = batch.num_reqs, flat.num_tokens
        self._fence()
        self._device.launch(
            "slot_mapping",
            lambda: self._compute(num_reqs, num_tokens),
            Work("slot_mapping", num_tokens, num_reqs),
            consumes=consumes,
        )

    @abstractmethod
    def _compute(self, num_reqs: int, num_tokens: int) -> None: ...


class TorchSlotMapper(DeviceMapper):
    """Tensor operations on the device."""

    def __init__(self, device: Device, tensors: SlotTensors, block_size: int, fence: Fence) -> None:
        super().__init__(device, fence)
        self._tensors = tensors
        self._block_size = block_size
        self._width = tensors.block_table.shape[1]
        self._flat_table = tensors.block_table.view(-1)
        self._tokens = device.empty(tensors.slots.shape, torch.int32)
        self._tokens.copy_(torch.arange(tensors.slots.numel(), dtype=torch.int32))
        tensors.slots.fill_(PAD_SLOT)
        self._mapped = 0

    def _compute(self, num_reqs: int, num_tokens: int) -> None:
        tensors, block_size = self._tensors, self._block_size
        ends = tensors.query_start_loc[1 : num_reqs + 1]
        torch.sub(ends, 1, out=tensors.logits_indices[:num_reqs]).clamp_(min=0)
        positions = tensors.positions[:num_tokens]
        rows = torch.searchsorted(ends, self._tokens[:num_tokens], right=True)  # int64; skips requests without tokens
        logical = positions // block_size
        blocks = self._flat_table.index_select(0, rows.mul_(self._width).add_(logical))
        # slot = block * B + (position - logical * B), with the block widened before it is multiplied
        slots = blocks.to(torch.int64).sub_(logical).mul_(block_size).add_(positions)
        tensors.slots[:num_tokens] = slots.masked_fill_(blocks == NULL_BLOCK, PAD_SLOT)
        if num_tokens < self._mapped:
            tensors.slots[num_tokens : self._mapped] = PAD_SLOT
        self._mapped = num_tokens


class KernelStandIn(DeviceMapper):
    """What the Triton kernel does, on device tensors that live in host memory (devices cpu and sim).

    It reads and writes the same tensors as the kernel, through NumPy views, so that a stale table shows in the slots;
    and it costs little, so that a host phase on the cpu device is not mostly the price of standing in.
    """

    def __init__(self, device: Device, tensors: SlotTensors, block_size: int, fence: Fence) -> None:
        super().__init__(device, fence)
        self._block_size = block_size
        self._boundaries = tensors.query_start_loc.numpy()
        self._positions = tensors.positions.numpy()
        self._table = tensors.block_table.numpy()
        self._slots = tensors.slots.numpy()
        self._logits_indices = tensors.logits_indices.numpy()
        self._rows = np.arange(self._table.shape[0])
        self._slots[:] = PAD_SLOT
        self._mapped = 0

    def _compute(self, num_reqs: int, num_tokens: int) -> None:
        ends = self._boundaries[1 : num_reqs + 1]
        last = self._logits_indices[:num_reqs]
        np.subtract(ends, 1, out=last)
        np.maximum(last, 0, out=last)
        positions, slots = self._positions[:num_tokens], self._slots[:num_tokens]
        rows = self._rows[:num_reqs].repeat(ends - self._boundaries[:num_reqs])
        logical = positions // self._block_size
        # slot = block * B + (position - logical * B); `slots` is int64, so nothing is multiplied in 32 bits
        blocks = self._table[rows, logical]
        np.subtract(blocks, logical, out=slots)
        np.multiply(slots, self._block_size, out=slots)
        np.add(slots, positions, out=slots)
        np.putmask(slots, blocks == NULL_BLOCK, PAD_SLOT)
        if num_tokens < self._mapped:
            self._slots[num_tokens : self._mapped] = PAD_SLOT
        self._mapped = num_tokens


class TritonSlotMapper(DeviceMapper):
    """One Triton kernel, bound to the step's fixed tensors; needs a GPU."""

    def __init__(self, device: Device, tensors: SlotTensors, block_size: int, fence: Fence) -> None:
        from .slot_kernel import SlotKernel

        self._kernel = SlotKernel(
            tensors.query_start_loc, tensors.positions, tensors.block_table,
            (tensors.slots, tensors.logits_indices), block_size,
        )  # fmt: skip
        super().__init__(device, fence)

    def _compute(self, num_reqs: int, num_tokens: int) -> None:
        self._kernel(num_reqs, num_tokens)


class HostSlotMapper:
    """NumPy on the host mirror of a group's block table, then two copies: the road that the kernel saves.

    `logits_indices` is None where another group's mapper fills it.
    """

    reads_table = False

    def __init__(
        self, slots: InputBuffer, logits_indices: InputBuffer | None, block_size: int, fence: Fence, *, group: int = 0
    ) -> None:
        self._fence = fence
        self._group = group
        self._slots = slots
        self._logits_indices = logits_indices
        self._block_size = block_size

    def map(self, batch: InputBatch, flat: FlatIndices, consumes: Sequence[int]) -> None:
        """Compute, then copy the whole slot buffer: its tail carries the padding."""
        num_reqs, num_tokens = batch.num_reqs, flat.num_tokens
        logical, offset = np.divmod(flat.positions, self._block_size)
        table = batch.block_tables.tables[self._group].values
        blocks = table[batch.columns_of(flat.req_indices), logical].astype(np.int64)
        slots = self._slots.acquire()
        slots[:num_tokens] = np.where(blocks == NULL_BLOCK, PAD_SLOT, blocks * self._block_size + offset)
        slots[num_tokens:] = PAD_SLOT
        self._slots.publish(slots.size)
        if self._logits_indices is not None:
            _copy_last(self._logits_indices, flat, num_reqs)
        self._fence()


def _copy_last(logits_indices: InputBuffer, flat: FlatIndices, num_reqs: int) -> None:
    last = logits_indices.acquire()
    counts = np.bincount(flat.req_indices, minlength=num_reqs)
    np.maximum(np.cumsum(counts) - 1, 0, out=last[:num_reqs])
    logits_indices.publish(num_reqs)


class GroupMappers:
    """One mapping for each KV cache group whose tokens have slots, one behind the other."""

    def __init__(self, mappers: Sequence[SlotMapper]) -> None:
        self._first, *self._others = mappers
        self.reads_table = self._first.reads_table

    def map(self, batch: InputBatch, flat: FlatIndices, consumes: Sequence[int]) -> None:
        """One launch a group; the first of them is the first consumer of all copies."""
        self._first.map(batch, flat, consumes)
        for mapper in self._others:
            mapper.map(batch, flat, ())


class SetMappers:
    """Mappers whose tensors belong to one set of device buffers each; the step's set decides."""

    def __init__(self, mappers: Sequence[SlotMapper], sets: DeviceSets) -> None:
        self._mappers = mappers
        self._sets = sets
        self.reads_table = mappers[0].reads_table

    def map(self, batch: InputBatch, flat: FlatIndices, consumes: Sequence[int]) -> None:
        """That of the step's set."""
        self._mappers[self._sets.current].map(batch, flat, consumes)


def make_device_mapper(
    kind: SlotMappingBackend, device: Device, tensors: SlotTensors, block_size: int, fence: Fence
) -> SlotMapper:
    """The mapper for `triton` or `torch`. Without a GPU something stands in for the Triton kernel, and a modelled
    device charges it as the kernel: a launch is a launch.
    """
    if kind == "torch":
        return TorchSlotMapper(device, tensors, block_size, fence)
    if kind != "triton":
        raise UsageError(f"slot_mapping: unknown value {kind!r}; known are triton, torch, host")
    if device.tensor_device.type == "cuda":
        return TritonSlotMapper(device, tensors, block_size, fence)
    return KernelStandIn(device, tensors, block_size, fence)
