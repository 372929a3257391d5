"""Builds slot mapping: mappers for every KV cache group and every set of device buffers, and what they fill."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from .buffers.device_sets import DeviceSets
from .buffers.factory import BufferFactory
from .buffers.staged import StagedBuffer
from .config import RunnerConfig
from .devices.base import Device
from .inputs.copy_ordering import CopyOrdering
from .inputs.prepare import DeviceTensors, InputBuffers
from .inputs.sharded_slots import ShardedHostMapper, make_sharded_mapper
from .inputs.slot_mapping import (
    PAD_SLOT,
    GroupMappers,
    HostSlotMapper,
    SetMappers,
    SlotMapper,
    SlotTensors,
    make_device_mapper,
)
from .inputs.step_inputs import GroupTensors
from .kv_groups import KVGroup
from .state.block_tables import BlockTables


@dataclass(frozen=True, slots=True)
class SlotSite:
    """What slot mapping is built on; `rows` is the row capacity of device buffers."""

    config: RunnerConfig
    device: Device
    buffers: BufferFactory
    ordering: CopyOrdering
    tables: BlockTables
    rows: int

    @property
    def sets(self) -> DeviceSets:
        """The sets of device buffers."""
        return self.ordering.road.sets

    @property
    def keeping(self) -> list[int]:
        """Groups whose tokens have slots."""
        return [index for index, group in enumerate(self.tables.groups) if group.has_slots]


def build_slot_mapping(site: SlotSite, staged: InputBuffers) -> tuple[SlotMapper, tuple[DeviceTensors, ...]]:
    """The mapper of a step and the tensors that it fills, one entry a set."""
    if site.config.slot_mapping == "host":
        return _on_the_host(site)
    mappers, tensors = zip(*(_on_the_device(site, staged, number) for number in range(site.sets.count)), strict=True)
    return (mappers[0] if len(mappers) == 1 else SetMappers(mappers, site.sets)), tensors


def _on_the_device(site: SlotSite, staged: InputBuffers, number: int) -> tuple[SlotMapper, DeviceTensors]:
    """Mappers that read and write the tensors of one set."""
    config, device = site.config, site.device
    last = device.empty((site.rows,), torch.int64)
    starts, positions = staged.query_start_loc.gpus[number], staged.positions.gpus[number]
    mappers: list[SlotMapper] = []
    groups: list[GroupTensors] = []
    for group, table in zip(site.tables.groups, site.tables.device.pools[number].tables, strict=True):
        slots = device.empty(slots_shape(config, group), torch.int64).fill_(PAD_SLOT)
        groups.append(GroupTensors(table, slots))
        if group.shards.ranks > 1:
            mappers += _of_ranks(site, group, SlotTensors(starts, positions, table, slots, last))
        elif group.has_slots:
            fence = _no_fence if mappers else site.ordering.before_readers
            operands = SlotTensors(starts, positions, table, slots, last)
            mappers.append(make_device_mapper(config.slot_mapping, device, operands, group.kernel_block_size, fence))
    return _one(mappers), DeviceTensors(tuple(groups), last)


def _of_ranks(site: SlotSite, group: KVGroup, together: SlotTensors) -> list[SlotMapper]:
    """A launch for each rank, one behind the other, into its row of the slots."""
    config, ordering = site.config, site.ordering
    return [
        make_sharded_mapper(
            config.slot_mapping, site.device, replace(together, slots=slots), group.kernel_block_size,
            _no_fence if shard.rank else ordering.before_readers, shard,
        )
        for shard, slots in zip(group.shards, together.slots, strict=True)
    ]  # fmt: skip


def slots_shape(config: RunnerConfig, group: KVGroup) -> tuple[int, ...]:
    """Of a group's slots: [T], or [ranks, T]."""
    ranks, tokens = group.shards.ranks, config.max_num_batched_tokens
    return (tokens,) if ranks == 1 else (ranks, tokens)


def _on_the_host(site: SlotSite) -> tuple[SlotMapper, tuple[DeviceTensors, ...]]:
    """Mappers that fill staged buffers and copy them; the last one closes the step's copies."""
    tokens, stream = site.config.max_num_batched_tokens, site.ordering.stream
    last = site.buffers.buffer("logits_indices", site.rows, torch.int64, stream=stream)
    mappers: list[SlotMapper] = []
    slots: list[StagedBuffer] = []
    for index in site.keeping:
        shards = site.tables.groups[index].shards
        buffer = site.buffers.buffer(numbered("slot_mapping", index), shards.ranks * tokens, torch.int64, stream=stream)
        fence = site.ordering.before_readers if index == site.keeping[-1] else _no_fence
        block_size = site.tables.groups[index].kernel_block_size
        if shards.ranks > 1:
            mappers.append(ShardedHostMapper(buffer, last, block_size, fence, shards))
        else:
            mappers.append(HostSlotMapper(buffer, None if mappers else last, block_size, fence, group=index))
        slots.append(buffer)
    copied = dict(zip(site.keeping, slots, strict=True))
    tensors = tuple(
        DeviceTensors(tuple(_group_tensors(site, copied, number)), last.gpus[number])
        for number in range(site.sets.count)
    )
    return _one(mappers), tensors


def _group_tensors(site: SlotSite, copied: dict[int, StagedBuffer], number: int) -> list[GroupTensors]:
    tables = site.tables.device.pools[number].tables
    return [
        GroupTensors(
            table,
            copied[index].gpus[number].view(slots_shape(site.config, group)) if group.has_slots
            else _no_slots(site, group),
        )
        for index, (group, table) in enumerate(zip(site.tables.groups, tables, strict=True))
    ]


def _no_slots(site: SlotSite, group: KVGroup) -> torch.Tensor:
    assert not group.has_slots, "only a state group has none"
    return site.device.empty((site.config.max_num_batched_tokens,), torch.int64).fill_(PAD_SLOT)


def _one(mappers: list[SlotMapper]) -> SlotMapper:
    return mappers[0] if len(mappers) == 1 else GroupMappers(mappers)


def numbered(name: str, group: int) -> str:
    """Buffers of the first group keep the plain name."""
    return f"{name}.{group}" if group else name


def _no_fence() -> None:
    """Another group's mapping stands at the border between copies and readers."""
