"""Input preparation: from packed rows to the flat working set of one forward, in the article's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch

from ...errors import UsageError
from ...instrumentation.probe.api import ProbeLike
from ...workloads.step import StepDelta
from ..buffers.ports import InputBuffer
from ..handoff.strategy import Handoff, SyncHandoff
from ..probe_points import ProbePoints
from ..speculation.verification import DraftPlacement, NoDrafts
from ..state.input_batch import InputBatch
from .commit_order import TableCommit
from .containers import Containers
from .copy_ordering import CopyOrdering
from .flat_indices import FlatIndexBuilder, FlatIndices
from .slot_mapping import SlotMapper
from .step_inputs import GroupTensors, IntArray, LongArray, StepInputs
from .token_gather import Gather


@dataclass(frozen=True, slots=True)
class InputBuffers:
    """Staged buffers that are written every step (capacities in rows and tokens, see RunnerConfig)."""

    input_ids: InputBuffer  # [token_capacity] int32
    positions: InputBuffer  # [token_capacity] int64
    query_start_loc: InputBuffer  # [row_capacity + 1] int32
    seq_lens: InputBuffer  # [row_capacity] int32
    close: Callable[[], int] = lambda: 0
    """Called when the step has published them all. Returns the correlation of the copy that this makes, 0 without one.
    """


@dataclass(frozen=True, slots=True)
class DeviceTensors:
    """What kernels write or the block table owns, at fixed addresses."""

    groups: tuple[GroupTensors, ...]  # one a KV cache group
    logits_indices: torch.Tensor  # [row_capacity] int64


@dataclass(frozen=True, slots=True)
class Strategies:
    """The objects that the switches have chosen."""

    commit: TableCommit
    ordering: CopyOrdering
    indices: FlatIndexBuilder
    gather: Gather
    slots: SlotMapper
    handoff: Handoff = field(default_factory=SyncHandoff)
    drafts: DraftPlacement = field(default_factory=NoDrafts)


class _HostSide(NamedTuple):
    """This step's host arrays, until they are wrapped into StepInputs."""

    num_scheduled: IntArray
    num_computed: IntArray
    query_start_loc: IntArray  # whole buffer
    seq_lens: IntArray  # whole buffer
    flat: FlatIndices


class InputPreparation:
    """Prepares the inputs of each step; `prepare` reads as the article does."""

    def __init__(
        self, probe: ProbeLike, points: ProbePoints, buffers: InputBuffers, tensors: Sequence[DeviceTensors],
        strategies: Strategies,
    ) -> None:  # fmt: skip
        self._build = probe.timed("build_indices", InputPreparation._build_indices)
        self._copy = probe.timed("copy_inputs", InputPreparation._copy_inputs)
        self._map = probe.timed("slot_mapping", strategies.slots.map)
        self._points = points
        self._buffers = buffers
        self._tensors = tensors
        self._use = strategies
        self._sampler_reads = strategies.drafts.read_by_sampler or not strategies.slots.reads_table
        self._late: tuple[FlatIndices, tuple[int, ...]] | None = None  # until `finish`: what slot mapping will read
        self.token_capacity = int(buffers.input_ids.gpu.numel())
        self.container_sets = tuple(
            Containers(
                buffers.input_ids.gpus[number], buffers.positions.gpus[number], buffers.query_start_loc.gpus[number],
                buffers.seq_lens.gpus[number], per_set.groups,
            )
            for number, per_set in enumerate(tensors)
        )  # fmt: skip
        """The device buffers that steps fill, set by set, for graphs to capture."""

    def commit_with(self, commit: TableCommit) -> None:
        """Between two steps: from now on the block table is committed so."""
        assert self._late is None, "a commit is still to come"
        self._use = replace(self._use, commit=commit)

    @property
    def containers(self) -> Containers:
        """The first set of the device buffers that steps fill."""
        return self.container_sets[0]

    def forward_enqueued(self) -> None:
        """Behind the forward the device buffers may be overwritten, unless copies filled logits indices or drafts as
        well: the sampler reads those.
        """
        if not self._sampler_reads:
            self._use.ordering.after_readers()

    def sampling_enqueued(self) -> None:
        """Behind the sampler nothing of this step reads a buffer that a copy fills."""
        if self._sampler_reads:
            self._use.ordering.after_readers()

    @property
    def skipped_commits(self) -> int:
        """Steps in which the block table was not copied because it had not changed."""
        return self._use.commit.skipped_commits

    def prepare(self, batch: InputBatch, delta: StepDelta) -> StepInputs:
        """Inputs of `delta` for the batch as `update` left it. Views in the result hold until the next call."""
        use = self._use
        use.ordering.before_copies()
        table_copies = use.commit.before(batch.block_tables, batch.num_reqs)
        host = self._build(self, batch, delta)
        copies = self._copy(self, host)
        inputs = self._wrap(batch, delta, host, table_copies)
        if use.commit.is_late:
            self._late = (host.flat, copies)
        if not use.commit.is_late or not use.slots.reads_table:
            self._map_slots(batch, inputs, host.flat, (*table_copies, *copies))
        return inputs

    def finish(self, batch: InputBatch, inputs: StepInputs) -> StepInputs:
        """The end of the preparation. For most commit orders nothing is left to do.

        With order `last` the table's copy is enqueued here, behind all host work but the launch of the forward; and
        behind it slot mapping, where that reads the table on the device.
        """
        late, self._late = self._late, None
        if late is not None:
            inputs = self._finish_late(batch, inputs, *late)
        self._use.handoff.apply(inputs.input_ids)
        return inputs

    def _finish_late(
        self, batch: InputBatch, inputs: StepInputs, flat: FlatIndices, copies: tuple[int, ...]
    ) -> StepInputs:
        table_copies = self._use.commit.after(batch.block_tables, batch.num_reqs)
        inputs = replace(inputs, table_copies=table_copies)
        if self._use.slots.reads_table:
            self._map_slots(batch, inputs, flat, (*table_copies, *copies))
        else:
            self._use.ordering.before_readers()  # once more: the forward is the first to read this copy
        return inputs

    def _map_slots(
        self, batch: InputBatch, inputs: StepInputs, flat: FlatIndices, consumes: tuple[int, ...]
    ) -> None:
        self._map(batch, flat, consumes)
        if self._points.active:
            self._points.reach("slot_mapping", inputs=inputs)

    def _build_indices(self, batch: InputBatch, delta: StepDelta) -> _HostSide:
        num_reqs, buffers = batch.num_reqs, self._buffers
        scheduled = batch.scheduled(delta.num_scheduled_tokens)
        computed = batch.num_computed[batch.rows]  # may be a view: it changes with the next update
        query_start_loc = buffers.query_start_loc.acquire()
        num_tokens = self._use.indices.boundaries(scheduled, query_start_loc)
        if num_tokens > self.token_capacity:
            raise UsageError(
                f"step {delta.step}: {num_tokens} tokens are scheduled, but max_num_batched_tokens is"
                f" {self.token_capacity}"
            )
        flat = self._use.indices.build(scheduled, computed, query_start_loc, buffers.positions.acquire())
        seq_lens = buffers.seq_lens.acquire()
        np.add(computed, scheduled, out=seq_lens[:num_reqs])
        seq_lens[num_reqs:] = 0
        host = _HostSide(scheduled, computed, query_start_loc, seq_lens, flat)
        if self._points.active:
            self._report_cumsum(batch, host)
        input_ids = buffers.input_ids.acquire()
        self._gather(batch, delta, scheduled, flat, input_ids)
        if self._points.active:
            self._points.reach(
                "gather", req_ids=batch.req_ids, input_ids=input_ids[:num_tokens], positions=flat.positions
            )
        return host

    def _gather(
        self, batch: InputBatch, delta: StepDelta, scheduled: IntArray, flat: FlatIndices, input_ids: IntArray
    ) -> None:
        """Input ids from the histories, and drafts behind them. Where histories hold placeholders, the hand-off learns
        what it has to bring.
        """
        use, ids = self._use, batch.req_ids

        def fill() -> None:
            use.gather.fill(batch, flat, input_ids)
            use.drafts.place(delta.scheduled_spec_decode_tokens, ids, scheduled, input_ids)

        fill()
        self._ids_travel = use.handoff.plan(ids, scheduled, flat, input_ids, fill)

    def _copy_inputs(self, host: _HostSide) -> tuple[int, ...]:
        """Enqueue the small copies, or the one that they are packed into; returns those that slot mapping reads first.

        Boundaries and lengths travel whole: their tails are the padding. Tokens travel as far as they are real.
        """
        buffers, num_tokens = self._buffers, host.flat.num_tokens
        positions = buffers.positions.publish(num_tokens)
        boundaries = buffers.query_start_loc.publish(host.query_start_loc.size)
        buffers.seq_lens.publish(host.seq_lens.size)
        if self._ids_travel:
            buffers.input_ids.publish(num_tokens)
        self._use.drafts.publish()
        self._use.handoff.prepare()
        packed = buffers.close()
        return (packed,) if packed else (positions, boundaries)

    def _wrap(
        self, batch: InputBatch, delta: StepDelta, host: _HostSide, table_copies: tuple[int, ...]
    ) -> StepInputs:
        num_reqs, flat = batch.num_reqs, host.flat
        rows, seq_lens = batch.rows, host.seq_lens[:num_reqs]
        discard = seq_lens < batch.num_tokens[rows]
        if flat.idle:
            discard |= host.num_scheduled == 0
        ends = host.query_start_loc[1 : num_reqs + 1]
        current = self._use.ordering.road.sets.current
        device = self.container_sets[current]
        is_prefilling = host.num_computed < batch.num_prompt[rows]
        return StepInputs(  # by place: 23 keywords take 0.7 us longer
            delta.step, batch.req_ids, num_reqs, flat.num_tokens, host.num_scheduled, host.num_computed,
            host.query_start_loc[: num_reqs + 1], flat.req_indices, flat.query_pos, flat.positions, seq_lens,
            last_positions(ends, idle=flat.idle), discard, is_prefilling,
            device.input_ids, device.positions, device.query_start_loc, device.seq_lens, device.groups,
            self._tensors[current].logits_indices, table_copies, self._use.drafts.metadata(), current,
        )  # fmt: skip

    def _report_cumsum(self, batch: InputBatch, host: _HostSide) -> None:
        num_reqs, flat = batch.num_reqs, host.flat
        self._points.reach(
            "cumsum",
            req_ids=batch.req_ids,
            num_scheduled=host.num_scheduled,
            num_computed=host.num_computed,
            query_start_loc=host.query_start_loc[: num_reqs + 1],
            req_indices=flat.req_indices,
            query_pos=flat.query_pos,
            positions=flat.positions,
            seq_lens=host.seq_lens[:num_reqs],
        )


def last_positions(ends: IntArray, *, idle: bool) -> LongArray:
    """[R] int64: the last token of each request. One without tokens (`idle`) must not reach back to index -1."""
    last: LongArray = np.subtract(ends, 1, dtype=np.int64)
    return np.maximum(last, 0, out=last) if idle else last
