"""Runs one forward in the container that the plan chose: eager, or a captured graph over fixed addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch

from .attention.islands import IslandMetadata, Islands
from .attention.layers import LayerMetadata
from .attention.metadata import AttentionBackend, CommonAttentionMetadata
from .config import RunnerConfig
from .devices.base import Device, GraphKey, NoGraphMemory, Work
from .dispatch_rules import mode_pair
from .inputs.containers import Containers
from .inputs.step_inputs import GroupTensors, StepInputs
from .models.kv_cache import KVCache
from .models.llama import LlamaModel
from .plan import ExecutionPlan


class Executor:
    """Model, cache and attention behind one verb.

    A captured function sees only what keeps its address: the input buffers, weights and cache, and this object's slot
    for the step's metadata, whose tensors are views of fixed device buffers. `run` fills the slot before each replay.
    """

    def __init__(
        self, device: Device, model: LlamaModel, kv_cache: KVCache, attention: LayerMetadata, config: RunnerConfig
    ) -> None:
        self._device = device
        self._model = model
        self._kv_cache = kv_cache
        self._layers = attention
        self._windows = [spec.window for spec in attention.layers]
        self._backend = attention.backend
        # A slot-mapping kernel is the first reader of the block table's copy; without one the forward is.
        self._reads_table_first = config.slot_mapping == "host"
        # Where mixed batches have no full graph, a full graph only ever meets decodes: one token a row, without drafts.
        self._full_is_uniform = mode_pair(config.graph_mode).separate and config.decode_query_len == 1
        self._metadata: Sequence[object] = ()
        self.uncaptured: dict[GraphKey, str] = {}
        """Keys that the device had no memory for, each with the driver's reason."""

    def capture_all(self, keys: Iterable[GraphKey], *sets: Containers) -> None:
        """Capture every key over each set of buffers that steps fill; before the first step, while they hold padding.

        Captures run on padding alone (slots -1, empty rows), so they leave the KV cache as it was. Keys come largest
        first, so where memory runs out the largest sizes stay uncaptured, and their steps run eagerly. The first set
        comes last: whoever finds its graph finds those of the others.
        """
        keys = tuple(keys)
        if not keys:
            return
        for containers in sets:
            containers.hold_only_padding()
        shape = self._model.config
        islands = Islands(self._device, self._backend, lambda: self._metadata)
        hidden = self._device.empty((max(key.tokens for key in keys), shape.hidden_size), shape.torch_dtype)
        for key in keys:
            backend = islands if key.mode == "piecewise" else self._backend
            try:
                for number in reversed(range(len(sets))):
                    self._capture(replace(key, buffer_set=number), sets[number], hidden[: key.tokens], backend)
            except NoGraphMemory as error:
                self.uncaptured[key] = str(error)
        self._metadata = ()

    def _capture(
        self, key: GraphKey, containers: Containers, hidden: torch.Tensor, backend: AttentionBackend
    ) -> None:
        self._metadata = self._padding_only(key, containers)
        forward = self._forward(containers.input_ids[: key.tokens], containers.positions[: key.tokens], backend)
        self._device.capture(key, _into(hidden, forward))

    def run(self, plan: ExecutionPlan, inputs: StepInputs, metadata: Sequence[object]) -> torch.Tensor:
        """Hidden states [padded_tokens, hidden]; rows behind num_tokens are padding. Valid until the next run."""
        self._metadata = metadata
        work = Work("forward", plan.padded_tokens, plan.padded_reqs)
        if self._device.modelled:  # a real engine doesn't count what its kernels will read
            with self._device.paused():
                work = forward_work(plan, inputs, self._windows)
        consumes = self._first_reads(inputs)
        if plan.mode != "none":
            rows = plan.padded_reqs if plan.mode == "full" else None
            key = GraphKey(plan.mode, plan.padded_tokens, rows, inputs.buffer_set)
            return self._device.replay(key, work, consumes=consumes)
        tokens = plan.padded_tokens
        forward = self._forward(inputs.input_ids[:tokens], inputs.positions_gpu[:tokens], self._backend)
        return self._device.launch("forward", forward, work, consumes=consumes)

    def _first_reads(self, inputs: StepInputs) -> tuple[int, ...]:
        return inputs.table_copies if self._reads_table_first else ()

    def _forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, backend: AttentionBackend
    ) -> Callable[[], torch.Tensor]:
        def forward() -> torch.Tensor:
            metadata = self._metadata
            if isinstance(backend, Islands):
                metadata = [IslandMetadata(*each) for each in enumerate(metadata)]
            return self._model.forward(input_ids, positions, self._kv_cache, backend, metadata)

        return forward

    def _padding_only(self, key: GraphKey, containers: Containers) -> tuple[object, ...]:
        """Metadata of a step without a request, in the shape that `key` runs and at the addresses that steps use."""
        tokens = key.tokens
        rows = min(tokens, containers.seq_lens.numel()) if key.rows is None else key.rows
        groups = [GroupTensors(group.block_table[:rows], group.slots[..., :tokens]) for group in containers.groups]
        common = CommonAttentionMetadata(
            num_reqs=rows,
            num_actual_reqs=0,
            num_tokens=tokens,
            num_actual_tokens=0,
            max_query_len=0,
            max_seq_len=0,
            query_start_loc=containers.query_start_loc[: rows + 1],
            seq_lens=containers.seq_lens[:rows],
            block_table=groups[0].block_table,
            slot_mapping=groups[0].slots,
            positions=containers.positions[:tokens],
            query_start_loc_cpu=np.zeros(rows + 1, dtype=np.int32),
            seq_lens_cpu=np.zeros(rows, dtype=np.int32),
            is_prefilling=np.zeros(rows, dtype=np.bool_),
            uniform=key.mode == "full" and self._full_is_uniform,
        )
        return self._layers.build(common, groups)


def _into(out: torch.Tensor, forward: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """`forward` with its result in memory of ours: all graphs share one output, since one step runs at a time."""

    @torch.inference_mode()
    def captured() -> torch.Tensor:
        return out.copy_(forward())

    return captured


def forward_work(plan: ExecutionPlan, inputs: StepInputs, windows: Sequence[int | None] = (None,)) -> Work:
    """What the step's forward computes and reads: padded tokens and rows, real KV positions and (query, key) pairs.

    `windows` are the layers' own; positions and pairs are means over the layers, since costs are those of all layers.
    A row of q queries that ends at length s has q * s - q * (q - 1) / 2 causal pairs; behind a window w its last
    m = min(q, s - w) queries each miss what lies before it, together m * (s - w) - m * (m - 1) / 2.
    """
    queries, lens = inputs.num_scheduled.astype(np.int64), inputs.seq_lens.astype(np.int64)
    single = queries == 1
    kv_tokens = prefill_pairs = 0
    for window, layers in Counter(windows).items():
        behind = np.zeros_like(lens) if window is None else np.maximum(lens - window, 0)
        missing = np.minimum(queries, behind)
        pairs = queries * lens - queries * (queries - 1) // 2 - missing * behind + missing * (missing - 1) // 2
        kv_tokens += layers * int((lens - behind)[single].sum())
        prefill_pairs += layers * int(pairs[~single].sum())
    count = len(windows)
    return Work("forward", plan.padded_tokens, plan.padded_reqs, kv_tokens // count, prefill_pairs // count)
