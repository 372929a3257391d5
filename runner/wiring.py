"""Builds the parts of a runner: the one place where switches become objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..errors import UsageError
from ..instrumentation.capture_sizes import Sizes
from ..instrumentation.probe.api import ProbeLike
from ..instrumentation.probe.ledger import Ledger
from .attention.common import MetadataBuilder
from .attention.factory import make_attention
from .attention.layers import LayerMetadata, LayerSpec
from .attention.masks import make_masks
from .buffers.factory import BufferFactory
from .buffers.make_tables import TableFactory
from .buffers.small_inputs import Field, SmallInputs, make_small_inputs
from .config import RunnerConfig
from .devices.base import Device
from .dispatch import Dispatcher, graph_limits, make_dispatcher
from .embedding_stages import stage_kinds
from .executor import Executor
from .flight_wiring import FlightSite, TokenFlight, build_flight, flight_fields
from .inputs.commit_order import make_commit
from .inputs.copy_ordering import CopyOrdering, make_copy_ordering
from .inputs.flat_indices import FlatIndexBuilder
from .inputs.prepare import DeviceTensors, InputBuffers, InputPreparation, Strategies
from .inputs.prompt_embeds import make_embeddings
from .inputs.token_gather import make_gather
from .kv_groups import KVGroup, assign_layers, resolve_groups
from .models.config import ModelConfig, resolve_config
from .models.kv_cache import allocate_group_caches
from .models.llama import load_model
from .probe_points import ProbePoints
from .sampling.sampler import Sampler
from .slot_wiring import SlotSite, build_slot_mapping, numbered
from .speculation.synthetic import Continuations
from .state.block_table import aligned_width
from .state.block_tables import BlockTables
from .state.make_batch import make_batch, table_order
from .state.reorder import make_order
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
    flight: TokenFlight
    settle_verdicts: Callable[[], None]


def build_stages(site: Site) -> Stages:
    """All stages of one runner, with its graphs captured."""
    config, device = site.config, site.device
    ordering = make_copy_ordering(device, config.copy_stream, config.device_buffers, config.staging)
    buffers = BufferFactory(
        device, site.ledger, config.staging, ring_slots=config.ring_slots, road=ordering.road,
        verify=config.verify_copies,
    )
    tables = build_block_tables(site, buffers, ordering)
    small = make_small_inputs(config.h2d_packing, buffers, small_fields(config, site.rows), ordering.stream)
    flight = build_flight(
        FlightSite(config, device, site.probe, site.ledger, small, ordering.road, site.continuations)
    )
    slot_site = SlotSite(config, device, buffers, ordering, tables, site.rows)
    model_config = resolve_config(config.model)
    batch = make_batch(config, tables, device)
    embeds = make_embeddings(config, device, site.ledger, batch, model_config.hidden_size)
    kinds = stage_kinds(embeds)
    inputs = kinds.preparation(site.probe, site.points, *_preparation(site, slot_site, small, flight))
    masks = make_masks(config, device, site.ledger)
    backend = make_attention(
        config.attention, device, config.graph_mode, model_config.reach, tables.groups[0].shards,
        masks.masks if masks else None,
    )  # fmt: skip
    model = load_model(
        config.model, config.model_seed, device, attention=backend.name, max_positions=config.max_model_len
    )
    layers = LayerMetadata(backend, layer_specs(tables.groups, model.config), config.metadata_reuse)
    of_layer = [spec.group for spec in layers.layers]
    cache = allocate_group_caches(device, model.config, config.num_blocks, tables.groups, of_layer)
    executor = kinds.executor(device, model, cache, layers, config)
    dispatcher = make_dispatcher(config, site.sizes, site.probe, site.ledger, device.captured, kinds.dispatcher)
    executor.capture_all(dispatcher.keys(), *inputs.container_sets)
    return Stages(
        state=kinds.state(batch, site.points, make_order(config.reorder, config.decode_query_len)),
        inputs=inputs,
        dispatcher=dispatcher,
        metadata=MetadataBuilder(layers, site.points, None if config.reorder == "off" else config.decode_query_len),
        executor=executor,
        sampler=Sampler(device, model, site.probe, config, flight.ring),
        flight=flight,
        settle_verdicts=_in_turn(buffers.flush, *(part.flush for part in (masks, embeds) if part is not None)),
    )


def _in_turn(*calls: Callable[[], None]) -> Callable[[], None]:
    def all_of_them() -> None:
        for call in calls:
            call()

    return all_of_them


def build_block_tables(site: Site, buffers: BufferFactory, ordering: CopyOrdering) -> BlockTables:
    """A table for each KV cache group."""
    groups = resolve_groups(site.config)
    widths = [table_width(site.config, group) for group in groups]
    names = [numbered("block_table", index) for index in range(len(groups))]
    factory = TableFactory(site.device, buffers, names, (site.rows, widths), ordering.stream)
    return BlockTables(groups, factory.make(site.config.block_table_commit, table_order(site.config.batch_state)))


def layer_specs(groups: Sequence[KVGroup], model: ModelConfig) -> tuple[LayerSpec, ...]:
    """Where each layer's blocks are and what it sees: its own window, or, in a model without windows, its group's.

    Raises UsageError where no group keeps enough for a layer, and for windows where blocks are cut among ranks.
    """
    chosen = assign_layers(groups, model.windows, model.num_hidden_layers)
    if model.windows is not None and any(group.shards.ranks > 1 for group in groups):
        raise UsageError(
            f"dcp: {groups[0].shards.ranks} ranks with a model of sliding windows: a window begins elsewhere in each"
            " rank's part of the keys; use dcp 1, or a model whose layers see all"
        )
    windows = model.windows or tuple(groups[index].window for index in chosen)
    return tuple(LayerSpec(group, window) for group, window in zip(chosen, windows, strict=True))


def table_width(config: RunnerConfig, group: KVGroup) -> int:
    """Entries of a row: aligned unless the configuration sets it or the group keeps a state, which no kernel pages."""
    blocks = group.blocks_for(config.max_model_len)
    if not group.has_slots:
        return blocks
    return config.table_width or aligned_width(blocks, group.rank_block_size)


def small_fields(config: RunnerConfig, rows: int) -> list[Field]:
    """What is written each step beside the block tables; the long ones stand last."""
    tokens = config.max_num_batched_tokens
    fields = [Field("query_start_loc", rows + 1, torch.int32), Field("seq_lens", rows, torch.int32)]
    fields += flight_fields(config, rows)
    return [*fields, Field("input_ids", tokens, torch.int32), Field("positions", tokens, torch.int64)]


def _preparation(
    site: Site, slot_site: SlotSite, small: SmallInputs, flight: TokenFlight
) -> tuple[InputBuffers, tuple[DeviceTensors, ...], Strategies]:
    """What the preparation of a step works with."""
    config, rows, tokens, ordering = site.config, site.rows, site.config.max_num_batched_tokens, slot_site.ordering
    staged = InputBuffers(
        small["input_ids"], small["positions"], small["query_start_loc"], small["seq_lens"], small.close
    )
    mapper, tensors = build_slot_mapping(slot_site, staged)
    strategies = Strategies(
        commit=make_commit(config.commit_order, site.probe),
        ordering=ordering,
        indices=FlatIndexBuilder(rows, tokens),
        gather=make_gather(config.token_gather, rows, tokens, config.max_model_len),
        slots=mapper,
        handoff=flight.handoff,
        drafts=flight.drafts,
    )
    return staged, tensors, strategies
