"""Builds the parts of a runner: the one place where switches become objects."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..instrumentation.capture_sizes import Sizes
from ..instrumentation.probe.api import ProbeLike
from ..instrumentation.probe.ledger import Ledger
from .attention.common import MetadataBuilder
from .attention.factory import make_attention
from .buffers.factory import BufferFactory
from .buffers.road import Road
from .config import RunnerConfig
from .devices.base import Device
from .dispatch import Dispatcher, row_capacity
from .executor import Executor
from .inputs.commit_order import make_commit
from .inputs.copy_ordering import CopyOrdering, make_copy_ordering
from .inputs.flat_indices import FlatIndexBuilder
from .inputs.prepare import DeviceTensors, InputBuffers, InputPreparation, Strategies
from .inputs.slot_mapping import HostSlotMapper, SlotMapper, SlotTensors, make_device_mapper
from .inputs.token_gather import make_gather
from .models.kv_cache import allocate_kv_cache
from .models.llama import load_model
from .probe_points import ProbePoints
from .sampling.sampler import Sampler
from .state.block_table import BlockTable, aligned_width
from .state.input_batch import InputBatch
from .state.update import WorkerState
from .validity import blocks_per_sequence


@dataclass(frozen=True, slots=True)
class Site:
    """What every part is built on. `rows` is the row capacity of device buffers: max_num_seqs, or its padded size."""

    config: RunnerConfig
    device: Device
    probe: ProbeLike
    ledger: Ledger
    points: ProbePoints
    sizes: Sizes

    @property
    def rows(self) -> int:
        """Rows of the per-request device buffers."""
        return row_capacity(self.config.graph_mode, self.sizes, self.config.max_num_seqs)


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a step in their order."""

    state: WorkerState
    inputs: InputPreparation
    dispatcher: Dispatcher
    metadata: MetadataBuilder
    executor: Executor
    sampler: Sampler


def build_stages(site: Site) -> Stages:
    """All stages of one runner, with its graphs captured."""
    config, device = site.config, site.device
    ordering = make_copy_ordering(device, config.copy_stream, config.device_buffers)
    buffers = BufferFactory(
        device, site.ledger, config.staging, ring_slots=config.ring_slots,
        road=Road(make_guard=lambda *_: ordering.guard),
    )
    table = build_block_table(site, buffers, ordering)
    staged = _input_buffers(site, buffers, ordering)
    inputs = _preparation(site, buffers, ordering, table, staged)
    backend = make_attention(config.attention, device, config.graph_mode)
    model = load_model(
        config.model, config.model_seed, device, attention=backend.name, max_positions=config.max_model_len
    )
    cache = allocate_kv_cache(device, model.config, config.num_blocks, config.block_size)
    executor = Executor(device, model, cache, backend, config)
    dispatcher = Dispatcher(config.graph_mode, site.sizes, site.rows, site.ledger, device.captured)
    executor.capture_all(dispatcher.keys(), inputs.containers)
    return Stages(
        state=WorkerState(InputBatch(config, table), site.points, device.tensor_device),
        inputs=inputs,
        dispatcher=dispatcher,
        metadata=MetadataBuilder(backend, site.points),
        executor=executor,
        sampler=Sampler(device, model, site.probe, config),
    )


def build_block_table(site: Site, buffers: BufferFactory, ordering: CopyOrdering) -> BlockTable:
    """The table of the one KV cache group; its width is aligned unless the configuration sets it."""
    config = site.config
    width = config.table_width or aligned_width(blocks_per_sequence(config), config.block_size)
    return BlockTable(buffers.table("block_table", site.rows, width, stream=ordering.stream))


def _input_buffers(site: Site, buffers: BufferFactory, ordering: CopyOrdering) -> InputBuffers:
    tokens, rows, stream = site.config.max_num_batched_tokens, site.rows, ordering.stream
    return InputBuffers(
        input_ids=buffers.buffer("input_ids", tokens, torch.int32, stream=stream),
        positions=buffers.buffer("positions", tokens, torch.int64, stream=stream),
        query_start_loc=buffers.buffer("query_start_loc", rows + 1, torch.int32, stream=stream),
        seq_lens=buffers.buffer("seq_lens", rows, torch.int32, stream=stream),
    )


def _preparation(
    site: Site, buffers: BufferFactory, ordering: CopyOrdering, table: BlockTable, staged: InputBuffers
) -> InputPreparation:
    config, rows, tokens = site.config, site.rows, site.config.max_num_batched_tokens
    mapper, tensors = _slot_mapper(site, buffers, ordering, table, staged)
    strategies = Strategies(
        commit=make_commit(config.commit_order, site.probe),
        ordering=ordering,
        indices=FlatIndexBuilder(rows, tokens),
        gather=make_gather(config.token_gather, rows, tokens, config.max_model_len),
        slots=mapper,
    )
    return InputPreparation(site.probe, site.points, staged, tensors, strategies)


def _slot_mapper(
    site: Site, buffers: BufferFactory, ordering: CopyOrdering, table: BlockTable, staged: InputBuffers
) -> tuple[SlotMapper, DeviceTensors]:
    """The mapper and the tensors that it fills; on the host it fills staged buffers and copies them."""
    config, tokens, fence = site.config, site.config.max_num_batched_tokens, ordering.before_readers
    if config.slot_mapping == "host":
        slots = buffers.buffer("slot_mapping", tokens, torch.int64, stream=ordering.stream)
        last = buffers.buffer("logits_indices", site.rows, torch.int64, stream=ordering.stream)
        mapper = HostSlotMapper(slots, last, config.block_size, fence)
        return mapper, DeviceTensors(table.staging.gpu, slots.gpu, last.gpu)
    tensors = DeviceTensors(
        block_table=table.staging.gpu,
        slot_mapping=site.device.empty((tokens,), torch.int64),
        logits_indices=site.device.empty((site.rows,), torch.int64),
    )
    operands = SlotTensors(
        query_start_loc=staged.query_start_loc.gpu,
        positions=staged.positions.gpu,
        block_table=tensors.block_table,
        slots=tensors.slot_mapping,
        logits_indices=tensors.logits_indices,
    )
    return make_device_mapper(config.slot_mapping, site.device, operands, config.block_size, fence), tensors
