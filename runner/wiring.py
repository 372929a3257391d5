"""Builds the parts of a runner: the one place where switches become objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..instrumentation.capture_sizes import Sizes
from ..instrumentation.probe.api import ProbeLike
from ..instrumentation.probe.ledger import Ledger
from .attention.common import MetadataBuilder
from .attention.factory import make_attention
from .attention.layers import LayerMetadata, LayerSpec
from .buffers.factory import BufferFactory
from .buffers.make_tables import TableFactory
from .config import RunnerConfig
from .devices.base import Device
from .dispatch import Dispatcher, graph_limits, make_dispatcher
from .executor import Executor
from .handoff.outputs import OutputRing
from .handoff.strategy import Handoff, make_handoff
from .inputs.commit_order import make_commit
from .inputs.copy_ordering import CopyOrdering, make_copy_ordering
from .inputs.flat_indices import FlatIndexBuilder
from .inputs.ports import InputBuffer
from .inputs.prepare import InputBuffers, InputPreparation, Strategies
from .inputs.token_gather import make_gather
from .kv_groups import KVGroup, assign_layers, resolve_groups
from .models.config import ModelConfig
from .models.kv_cache import allocate_group_caches
from .models.llama import load_model
from .probe_points import ProbePoints
from .sampling.sampler import Sampler
from .slot_wiring import SlotSite, build_slot_mapping, numbered
from .speculation.drafter import Drafter, make_drafter
from .speculation.synthetic import Continuations
from .speculation.verification import buffer_size, make_placement
from .state.block_table import aligned_width
from .state.block_tables import BlockTables
from .state.make_batch import make_batch, table_order
from .state.update import WorkerState


@dataclass(frozen=True, slots=True)
class Site:
    """What every part is built on. `rows` is the row capacity of device buffers: max_num_seqs, or its padded size."""

    config: RunnerConfig
    device: Device
    probe: ProbeLike
    ledger: Ledger
    points: ProbePoints
    sizes: Sizes
    continuations: Continuations | None = None

    @property
    def rows(self) -> int:
        """Rows of the per-request device buffers."""
        return graph_limits(self.config, self.sizes).rows


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a step in their order."""

    state: WorkerState
    inputs: InputPreparation
    dispatcher: Dispatcher
    metadata: MetadataBuilder
    executor: Executor
    sampler: Sampler
    handoff: Handoff
    drafter: Drafter


def build_stages(site: Site) -> Stages:
    """All stages of one runner, with its graphs captured."""
    config, device = site.config, site.device
    ordering = make_copy_ordering(device, config.copy_stream, config.device_buffers)
    buffers = BufferFactory(
        device, site.ledger, config.staging, ring_slots=config.ring_slots, road=ordering.road
    )
    tables = build_block_tables(site, buffers, ordering)
    staged = _input_buffers(site, buffers, ordering)
    handoff = make_handoff(
        config.token_handoff, device,
        lambda: buffers.buffer("handoff_rows", 2 * site.rows, torch.int32, stream=ordering.stream),
    )
    inputs = _preparation(site, buffers, ordering, tables, staged, handoff)
    backend = make_attention(config.attention, device, config.graph_mode)
    model = load_model(
        config.model, config.model_seed, device, attention=backend.name, max_positions=config.max_model_len
    )
    layers = LayerMetadata(backend, layer_specs(tables.groups, model.config), config.metadata_reuse)
    of_layer = [spec.group for spec in layers.layers]
    cache = allocate_group_caches(device, model.config, config.num_blocks, tables.groups, of_layer)
    executor = Executor(device, model, cache, layers, config)
    dispatcher = make_dispatcher(config, site.sizes, site.probe, site.ledger, device.captured)
    executor.capture_all(dispatcher.keys(), *inputs.container_sets)
    return Stages(
        state=WorkerState(make_batch(config, tables), site.points),
        inputs=inputs,
        dispatcher=dispatcher,
        metadata=MetadataBuilder(layers, site.points),
        executor=executor,
        sampler=Sampler(device, model, site.probe, config, output_ring(site, handoff)),
        handoff=handoff,
        drafter=make_drafter(config, site.probe, site.continuations, model.config.vocab_size),
    )


def output_ring(site: Site, handoff: Handoff) -> OutputRing:
    """Slots for the tokens of the steps in flight."""
    pinned = site.config.staging != "pageable"
    width = site.config.decode_query_len
    return OutputRing(site.device, site.config.max_num_seqs, handoff.depth, pinned=pinned, width=width)


def build_block_tables(site: Site, buffers: BufferFactory, ordering: CopyOrdering) -> BlockTables:
    """A table for each KV cache group."""
    groups = resolve_groups(site.config)
    widths = [table_width(site.config, group) for group in groups]
    names = [numbered("block_table", index) for index in range(len(groups))]
    factory = TableFactory(site.device, buffers, names, (site.rows, widths), ordering.stream)
    return BlockTables(groups, factory.make(site.config.block_table_commit, table_order(site.config.batch_state)))


def layer_specs(groups: Sequence[KVGroup], model: ModelConfig) -> tuple[LayerSpec, ...]:
    """Where each layer's blocks are and what it sees: its own window, or, in a model without windows, its group's."""
    chosen = assign_layers(groups, model.windows, model.num_hidden_layers)
    windows = model.windows or tuple(groups[index].window for index in chosen)
    return tuple(LayerSpec(group, window) for group, window in zip(chosen, windows, strict=True))


def table_width(config: RunnerConfig, group: KVGroup) -> int:
    """Entries of a row: aligned unless the configuration sets it or the group keeps a state, which no kernel pages."""
    blocks = group.blocks_for(config.max_model_len)
    if not group.has_slots:
        return blocks
    return config.table_width or aligned_width(blocks, group.kernel_block_size)


def _input_buffers(site: Site, buffers: BufferFactory, ordering: CopyOrdering) -> InputBuffers:
    tokens, rows, stream = site.config.max_num_batched_tokens, site.rows, ordering.stream
    return InputBuffers(
        input_ids=buffers.buffer("input_ids", tokens, torch.int32, stream=stream),
        positions=buffers.buffer("positions", tokens, torch.int64, stream=stream),
        query_start_loc=buffers.buffer("query_start_loc", rows + 1, torch.int32, stream=stream),
        seq_lens=buffers.buffer("seq_lens", rows, torch.int32, stream=stream),
    )


def _drafts_buffer(site: Site, buffers: BufferFactory, ordering: CopyOrdering) -> InputBuffer:
    size = buffer_size(site.config.max_num_seqs, site.config.num_drafts)
    return buffers.buffer("drafts", size, torch.int32, stream=ordering.stream)


def _preparation(
    site: Site, buffers: BufferFactory, ordering: CopyOrdering, tables: BlockTables, staged: InputBuffers,
    handoff: Handoff,
) -> InputPreparation:  # fmt: skip
    config, rows, tokens = site.config, site.rows, site.config.max_num_batched_tokens
    mapper, tensors = build_slot_mapping(
        SlotSite(config, site.device, buffers, ordering, tables, rows), staged
    )
    strategies = Strategies(
        commit=make_commit(config.commit_order, site.probe),
        ordering=ordering,
        indices=FlatIndexBuilder(rows, tokens),
        gather=make_gather(config.token_gather, rows, tokens, config.max_model_len),
        slots=mapper,
        handoff=handoff,
        drafts=make_placement(config.num_drafts, lambda: _drafts_buffer(site, buffers, ordering)),
    )
    return InputPreparation(site.probe, site.points, staged, tensors, strategies)
