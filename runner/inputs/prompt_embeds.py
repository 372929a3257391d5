"""Embeddings that prompts bring: who has some in a step, and how they reach the device, by the switch `prompt_embeds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np
import torch

from ...errors import UsageError
from ...instrumentation.probe.ledger import Ledger
from ...workloads.step import PromptEmbeds, StepDelta
from ..buffers.factory import BufferFactory
from ..config import RunnerConfig
from ..devices.base import Device
from ..state.embed_table import EmbedTable
from ..state.input_batch import InputBatch
from .step_inputs import BoolArray, LongArray, MergeEmbeds, StepInputs


class EmbedRoad(Protocol):
    """One way of the embeddings to the device."""

    def placed(self, row: int, embeds: PromptEmbeds) -> None:
        """A request that brings some lives in `row` of the batch from now on."""
        ...

    def stage(self, batch: InputBatch, inputs: StepInputs, carriers: Mapping[str, PromptEmbeds]) -> MergeEmbeds | None:
        """Copy what this step's tokens have, and say how it is merged; None where no token has any."""
        ...


class PromptEmbeddings:
    """What prompts of this runner bring: `of` by request, preempted ones included, until they finish."""

    def __init__(self, road: EmbedRoad, hidden: int, flush: Callable[[], None]) -> None:
        self.of: dict[str, PromptEmbeds] = {}
        self.flush = flush
        """Write the rows of `buffers` that wait for a checksum."""
        self._road = road
        self._hidden = hidden

    def arrived(self, req_id: str, embeds: PromptEmbeds, prompt_len: int, step: int) -> None:
        """A new request brings some. Raises UsageError for those of another model, or behind the prompt."""
        if embeds.values.shape[1] != self._hidden:
            raise UsageError(
                f"step {step}: request {req_id!r} brings embeddings of {embeds.values.shape[1]} numbers; the model's"
                f" have {self._hidden}"
            )
        if embeds.end > prompt_len:
            raise UsageError(
                f"step {step}: request {req_id!r} brings an embedding for position {embeds.end - 1}; its prompt has"
                f" {prompt_len} tokens"
            )
        self.of[req_id] = embeds

    def placed(self, req_id: str, batch: InputBatch) -> None:
        """A request was given a row of the batch."""
        embeds = self.of.get(req_id)
        if embeds is not None:
            self._road.placed(batch.row_of[req_id], embeds)

    def in_step(self, batch: InputBatch, delta: StepDelta) -> bool:
        """Whether a token that is scheduled has one; the batch is that of the step, nothing else is prepared yet."""
        scheduled = delta.num_scheduled_tokens
        for req_id, embeds in self.of.items():
            count = scheduled.get(req_id, 0)
            if count:
                computed = int(batch.num_computed[batch.row_of[req_id]])
                span = embeds.span(computed, computed + count)
                if span.start < span.stop:
                    return True
        return False

    def stage(self, batch: InputBatch, inputs: StepInputs) -> MergeEmbeds | None:
        """See EmbedRoad."""
        return self._road.stage(batch, inputs, self.of)


class SparseRoad:
    """Kept by request as it came; a step copies the rows that its tokens have, and where in the stream they go.

    Copies: `embed_rows` [n, hidden] float32, `embed_places` [n] int64.
    """

    def __init__(self, buffers: BufferFactory, tokens: int, hidden: int) -> None:
        self._rows = buffers.buffer("embed_rows", tokens * hidden, torch.float32)
        self._places = buffers.buffer("embed_places", tokens, torch.int64)
        self._hidden = hidden

    def placed(self, row: int, embeds: PromptEmbeds) -> None:
        """Nothing: rows of the batch have no part in it."""

    def stage(self, batch: InputBatch, inputs: StepInputs, carriers: Mapping[str, PromptEmbeds]) -> MergeEmbeds | None:
        """See EmbedRoad."""
        parts = list(_parts(inputs, carriers))
        if not parts:
            return None
        hidden = self._hidden
        rows, places = self._rows.acquire(), self._places.acquire()
        count = 0
        for embeds, span, shift in parts:
            end = count + span.stop - span.start
            rows[count * hidden : end * hidden].reshape(-1, hidden)[:] = embeds.values[span]
            np.add(embeds.positions[span], shift, out=places[count:end])
            count = end
        self._rows.publish(count * hidden)
        self._places.publish(count)
        values, at = self._rows.gpu[: count * hidden].view(count, hidden), self._places.gpu[:count]
        return lambda embedded: embedded.index_copy(0, at, values.to(embedded.dtype))


def _parts(
    inputs: StepInputs, carriers: Mapping[str, PromptEmbeds]
) -> Iterator[tuple[PromptEmbeds, slice, int]]:
    """Whose embeddings the step's tokens have, which of them, and what leads from a position to its place."""
    for place, req_id in enumerate(inputs.req_ids):
        embeds = carriers.get(req_id)
        if embeds is not None:
            computed = int(inputs.num_computed[place])
            span = embeds.span(computed, computed + int(inputs.num_scheduled[place]))
            if span.start < span.stop:
                yield embeds, span, int(inputs.query_start_loc[place]) - computed


class DenseRoad:
    """A table of all rows and positions on the host, gathered by the same indices as the token histories.

    Copies: `prompt_embeds` [Q, hidden] float32 and `embeds_given` [Q] bool, in steps where any token has one.
    """

    def __init__(self, buffers: BufferFactory, table: EmbedTable, tokens: int) -> None:
        self.table = table
        _, self._width, self._hidden = table.values.shape
        self._flat = table.values.reshape(-1, self._hidden)
        self._values = buffers.buffer("prompt_embeds", tokens * self._hidden, torch.float32)
        self._given = buffers.buffer("embeds_given", tokens, torch.bool)
        self._found: BoolArray = np.zeros(tokens, dtype=np.bool_)

    def placed(self, row: int, embeds: PromptEmbeds) -> None:
        """Write the row."""
        self.table.write(row, embeds)

    def stage(self, batch: InputBatch, inputs: StepInputs, carriers: Mapping[str, PromptEmbeds]) -> MergeEmbeds | None:
        """See EmbedRoad."""
        count, hidden = inputs.num_tokens, self._hidden
        index: LongArray = batch.columns_of(inputs.req_indices).astype(np.int64) * self._width + inputs.positions
        found = self._found[:count]
        self.table.given.reshape(-1).take(index, out=found, mode="clip")
        if not found.any():
            return None
        values = self._values.acquire()[: count * hidden].reshape(count, hidden)
        self._flat.take(index, axis=0, out=values, mode="clip")
        self._given.acquire()[:count] = found
        self._values.publish(count * hidden)
        self._given.publish(count)
        there, given = self._values.gpu[: count * hidden].view(count, hidden), self._given.gpu[:count].unsqueeze(1)
        return lambda embedded: torch.where(given, there.to(embedded.dtype), embedded)


def make_embeddings(
    config: RunnerConfig, device: Device, ledger: Ledger, batch: InputBatch, hidden: int
) -> PromptEmbeddings | None:
    """What the switch `prompt_embeds` asks for, a dense table as a column of `batch`; None where it is off.

    The buffers belong to no set of device buffers: copies run on the compute stream, behind the forward that read them.
    """
    if config.prompt_embeds == "off":
        return None
    buffers = BufferFactory(
        device, ledger, config.staging, ring_slots=config.ring_slots, verify=config.verify_copies
    )
    tokens = config.max_num_batched_tokens
    if config.prompt_embeds == "sparse":
        return PromptEmbeddings(SparseRoad(buffers, tokens, hidden), hidden, buffers.flush)
    table = EmbedTable(config.max_num_seqs, config.max_model_len, hidden)
    batch.columns = (*batch.columns, table)
    return PromptEmbeddings(DenseRoad(buffers, table, tokens), hidden, buffers.flush)
