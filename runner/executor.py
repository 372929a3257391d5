"""Runs one forward in the container that the plan chose: eager, or a captured graph over fixed addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch

from .attention.metadata import AttentionBackend, CommonAttentionMetadata
from .config import RunnerConfig
from .devices.base import Device, GraphKey, Work
from .inputs.step_inputs import StepInputs
from .models.kv_cache import KVCache
from .models.llama import LlamaModel
from .plan import ExecutionPlan


class Executor:
    """Model, cache and attention behind one verb.

    A captured function sees only what keeps its address: the input buffers, weights and cache, and this object's slot
    for the step's metadata, whose tensors are views of fixed device buffers. `run` fills the slot before each replay.
    """

    def __init__(
        self, device: Device, model: LlamaModel, kv_cache: KVCache, backend: AttentionBackend, config: RunnerConfig
    ) -> None:
        self._device = device
        self._model = model
        self._kv_cache = kv_cache
        self._backend = backend
        # A slot-mapping kernel is the first reader of the block table's copy; without one the forward is.
        self._reads_table_first = config.slot_mapping == "host"
        self._metadata: object = None

    def capture_all(self, keys: Iterable[GraphKey], input_ids: torch.Tensor, positions: torch.Tensor) -> None:
        """Capture every key over the device buffers input_ids and positions [max_num_batched_tokens].

        Captures run on padding alone (slots -1, empty rows), so they leave the KV cache as it was.
        """
        keys = tuple(keys)
        shape = self._model.config
        largest = max((key.tokens for key in keys), default=0)
        hidden = self._device.empty((largest, shape.hidden_size), shape.torch_dtype)
        for key in keys:
            self._metadata = self._backend.build(self._padding_only(key))
            forward = self._forward(input_ids[: key.tokens], positions[: key.tokens])
            self._device.capture(key, _into(hidden[: key.tokens], forward))
        self._metadata = None

    def run(self, plan: ExecutionPlan, inputs: StepInputs, metadata: object) -> torch.Tensor:
        """Hidden states [padded_tokens, hidden]; rows behind num_tokens are padding. Valid until the next run."""
        self._metadata = metadata
        with self._device.paused():  # a real engine doesn't count what its kernels will read
            work = forward_work(plan, inputs)
        consumes = self._first_reads(inputs)
        if plan.mode != "none":
            rows = plan.padded_reqs if plan.mode == "full" else None
            return self._device.replay(GraphKey(plan.mode, plan.padded_tokens, rows), work, consumes=consumes)
        tokens = plan.padded_tokens
        forward = self._forward(inputs.input_ids[:tokens], inputs.positions_gpu[:tokens])
        return self._device.launch("forward", forward, work, consumes=consumes)

    def _first_reads(self, inputs: StepInputs) -> tuple[int, ...]:
        if not self._reads_table_first or inputs.table_copy is None:
            return ()
        return (inputs.table_copy,)

    def _forward(self, input_ids: torch.Tensor, positions: torch.Tensor) -> Callable[[], torch.Tensor]:
        def forward() -> torch.Tensor:
            return self._model.forward(input_ids, positions, self._kv_cache, self._backend, self._metadata)

        return forward

    def _padding_only(self, key: GraphKey) -> CommonAttentionMetadata:
        """Metadata of a step without a request, in the shape that `key` runs."""
        device, rows = self._device.tensor_device, key.tokens if key.rows is None else key.rows
        return CommonAttentionMetadata(
            num_reqs=rows,
            num_actual_reqs=0,
            num_tokens=key.tokens,
            num_actual_tokens=0,
            max_query_len=0,
            max_seq_len=0,
            query_start_loc=torch.zeros(rows + 1, dtype=torch.int32, device=device),
            seq_lens=torch.zeros(rows, dtype=torch.int32, device=device),
            block_table=torch.zeros((rows, 1), dtype=torch.int32, device=device),
            slot_mapping=torch.full((key.tokens,), -1, dtype=torch.int64, device=device),
            positions=torch.zeros(key.tokens, dtype=torch.int64, device=device),
            query_start_loc_cpu=np.zeros(rows + 1, dtype=np.int32),
            seq_lens_cpu=np.zeros(rows, dtype=np.int32),
            is_prefilling=np.zeros(rows, dtype=np.bool_),
        )


def _into(out: torch.Tensor, forward: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """`forward` with its result in memory of ours: all graphs share one output, since one step runs at a time."""

    @torch.inference_mode()
    def captured() -> torch.Tensor:
        return out.copy_(forward())

    return captured


def forward_work(plan: ExecutionPlan, inputs: StepInputs) -> Work:
    """What the step's forward computes and reads: padded tokens and rows, real KV positions and (query, key) pairs.

    A row of q queries that ends at length s has q * s - q * (q - 1) / 2 causal pairs.
    """
    queries, lens = inputs.num_scheduled.astype(np.int64), inputs.seq_lens.astype(np.int64)
    single = queries == 1
    pairs = np.where(single, 0, queries * lens - queries * (queries - 1) // 2)
    kv_tokens, prefill_pairs = int(lens[single].sum()), int(pairs.sum())
    return Work("forward", plan.padded_tokens, plan.padded_reqs, kv_tokens, prefill_pairs)
