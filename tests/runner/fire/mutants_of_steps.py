"""Faults of a step's preparation, and of what the device does with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from stepscope.runner import kv_groups
from stepscope.runner.attention import masks, paged_layout, torch_backend
from stepscope.runner.handoff import history
from stepscope.runner.handoff.plan import PreviousStep
from stepscope.runner.inputs import prepare, slot_mapping
from stepscope.runner.inputs.flat_indices import FlatIndexBuilder
from stepscope.runner.inputs.prepare import InputPreparation
from stepscope.runner.inputs.slot_mapping import HostSlotMapper, KernelStandIn
from stepscope.runner.inputs.token_gather import CatGather
from stepscope.runner.models.llama import LlamaModel
from stepscope.runner.state.block_tables import BlockTables

from .arrangements import HOST, HYBRID, SLOTS, STATE
from .mutants_of_rows import change

ASYNC = {"token_handoff": "async_auto"}
MASK = {"attention_mask": "explicit"}


def boundaries_that_fall(patch):
    """The tail of query_start_loc falls back to zero: a padding request of negative length."""

    def make(right):
        def fallen(self, num_scheduled, query_start_loc):
            total = right(self, num_scheduled, query_start_loc)
            query_start_loc[num_scheduled.size + 1 :] = 0
            return total

        return fallen

    change(patch, FlatIndexBuilder, "boundaries", make)


def positions_from_zero(patch):
    """A chunk begins at its prompt's first position."""
    change(patch, FlatIndexBuilder, "build", lambda right: lambda self, scheduled, computed, starts, positions: right(
        self, scheduled, np.where(scheduled > 1, 0, computed), starts, positions
    ))  # fmt: skip


def wrapped(patch, **fields):
    """Fields of the step's inputs changed when they are put together; each value is a function of the inputs."""

    def make(right):
        def altered(self, *operands):
            inputs = right(self, *operands)
            return replace(inputs, **{name: of(inputs) for name, of in fields.items()})

        return altered

    change(patch, InputPreparation, "_wrap", make)


def one_query_is_a_decode(patch):
    """Decodes by shape: one token of a prompt is taken for one."""
    wrapped(patch, is_prefilling=lambda inputs: inputs.num_scheduled > 1)


def last_token_hidden(patch):
    """A request that reaches exactly its last known token is taken for unfinished."""

    def make(right):
        def altered(self, batch, *operands):
            known = batch.num_tokens[batch.rows].copy()
            inputs = right(self, batch, *operands)
            return replace(inputs, discard=inputs.seq_lens <= known)

        return altered

    change(patch, InputPreparation, "_wrap", make)


def tokens_inside_the_prompt_shown(patch):
    wrapped(patch, discard=lambda inputs: np.zeros_like(inputs.discard))


def logits_behind_the_last_token(patch):
    patch.setattr(prepare, "last_positions", lambda ends, *, idle: ends.astype(np.int64))


def padding_rows_with_a_length(patch):
    def make(right):
        def stale(self, batch, delta):
            host = right(self, batch, delta)
            host.seq_lens[batch.num_reqs :] = 1
            return host

        return stale

    change(patch, InputPreparation, "_build_indices", make)


def lengths_of_the_step_before(patch):
    def make(right):
        def late(self, batch, delta):
            host = right(self, batch, delta)
            host.seq_lens[: batch.num_reqs] -= host.num_scheduled
            return host

        return late

    change(patch, InputPreparation, "_build_indices", make)


def padding_in_the_null_block(patch):
    """Padding tokens write slot 0: the null block's, and every padding token at once."""
    patch.setattr(slot_mapping, "PAD_SLOT", 0)


def slots_in_too_few_bits(patch):
    """Slot = block * size is computed narrower than the largest slot."""

    def make(right):
        def narrow(self, num_reqs, num_tokens):
            right(self, num_reqs, num_tokens)
            self._slots[:num_tokens] = self._slots[:num_tokens].astype(np.int8)

        return narrow

    change(patch, KernelStandIn, "_compute", make)


def old_slots_behind_the_tokens(patch):
    """A shorter step leaves the slots of the longer one before it: padding writes there."""

    def make(right):
        def forgetful(self, num_reqs, num_tokens):
            self._mapped = 0
            right(self, num_reqs, num_tokens)

        return forgetful

    change(patch, KernelStandIn, "_compute", make)


def slots_of_the_first_group_everywhere(patch):
    """Both groups map with the first one's table."""
    tables: dict[int, object] = {}

    def make(right):
        def first(self, device, tensors, block_size, fence):
            right(self, device, tensors, block_size, fence)
            self._table = tables.setdefault(id(device), self._table)

        return first

    change(patch, KernelStandIn, "__init__", make)


def host_slots_by_place(patch):
    """Mapping on the host takes places of the step for rows of the tables."""

    def make(right):
        def wrong(self, batch, flat, consumes):
            patched = type("Plain", (), {
                "block_tables": batch.block_tables, "num_reqs": batch.num_reqs, "columns_of": lambda self, at: at,
            })()  # fmt: skip
            right(self, patched, flat, consumes)

        return wrong

    change(patch, HostSlotMapper, "map", make)


def one_token_too_late(patch):
    """The concatenated pieces begin one token late."""

    def make(right):
        def late(self, batch, flat, input_ids):
            right(self, batch, flat._replace(positions=flat.positions + 1), input_ids)

        return late

    change(patch, CatGather, "fill", make)


def kernel_blocks_not_cut(patch):
    """A manager block is handed to kernels as if it were one of theirs."""
    patch.setattr(
        kv_groups, "map_to_kernel_blocks", lambda ids, ratio: np.repeat(np.asarray(ids, dtype=np.int32), ratio)
    )


def placeholders_leak(patch):
    """A token that came back is not put into its place in the batch."""

    def leaky(state, reserved, tokens):
        for request, place, token in zip(reserved.states, reserved.outputs, tokens, strict=True):
            if request.valid_from_step <= reserved.step:
                request.output_token_ids[place] = token
                request.collected_step = reserved.step

    patch.setattr(history, "fill", leaky)


def row_of_the_neighbour(patch):
    """The map to the step before is one row off."""

    def make(right):
        return lambda self, req_id: (right(self, req_id) + 1) % len(self.req_ids)

    change(patch, PreviousStep, "row_of", make)


def windows_never_pass(patch):
    """Blocks below a window stay in the rows, though the scheduler has given them to others."""
    patch.setattr(BlockTables, "pass_windows", lambda self, rows, computed: None)


def last_token_not_written(patch):
    """The forward leaves out the KV cell of its last token."""

    def make(right):
        def short(cache, new, write):
            tokens = torch.arange(write.slots.numel()) if write.tokens is None else write.tokens
            right(cache, new, paged_layout.CacheWrite(tokens[:-1], write.slots[:-1]))

        return short

    change(patch, torch_backend, "write_cache", make)


def all_of_the_chunk_seen(patch):
    """Queries of one row see each other whatever their order, as if each were the last."""
    patch.setattr(torch_backend, "causal_tail", lambda query, key, value, window=None: (
        torch.nn.functional.scaled_dot_product_attention(query, key, value)
    ))  # fmt: skip


def mask_without_causality(patch):
    """The explicit mask shows each query all keys of its row."""
    patch.setattr(masks, "causal", lambda shape, window: np.ones(shape, dtype=np.bool_))


def mask_without_windows(patch):
    """The explicit mask shows what a window has left behind."""
    change(patch, masks, "causal", lambda right: lambda shape, window: right(shape, None))


def first_key_not_seen(patch):
    """In the explicit mask each row's keys begin one too late."""

    def late(places):
        for queries, keys in places:
            yield queries, slice(keys.start + (keys.stop - keys.start > queries.stop - queries.start), keys.stop)

    change(patch, masks, "_places", lambda right: lambda *operands: late(right(*operands)))


def keys_by_the_row_of_the_neighbour(patch):
    """Under the explicit mask stand the keys of another row."""
    change(patch, masks.StepMasks, "stage", lambda right: lambda self, common: (
        lambda mask: replace(mask, rows=np.roll(mask.rows, 1))
    )(right(self, common)))  # fmt: skip


def rotated_by_zero(patch):
    """Keys and queries are rotated as if everybody stood at the beginning."""
    change(patch, LlamaModel, "forward", lambda right: lambda self, ids, positions, *rest: right(
        self, ids, torch.zeros_like(positions), *rest
    ))  # fmt: skip


MUTANTS = [
    ("boundaries that fall", boundaries_that_fall, {}, "query_boundaries"),
    ("positions from zero", positions_from_zero, {}, "positions"),
    ("one query is a decode", one_query_is_a_decode, {}, "discard"),
    ("last token hidden", last_token_hidden, {}, "discard"),
    ("tokens inside the prompt shown", tokens_inside_the_prompt_shown, {}, "discard"),
    ("logits behind the last token", logits_behind_the_last_token, {}, "query_boundaries"),
    ("padding rows with a length", padding_rows_with_a_length, {}, "seq_lens_capacity"),
    ("lengths of the step before", lengths_of_the_step_before, {}, "seq_lens_capacity"),
    ("padding in the null block", padding_in_the_null_block, {}, "slot_ownership"),
    ("slots in too few bits", slots_in_too_few_bits, {}, "slot_ownership"),
    ("old slots behind the tokens", old_slots_behind_the_tokens, {}, "slot_ownership"),
    ("slots of the first group everywhere", slots_of_the_first_group_everywhere, HYBRID, "slot_ownership"),
    ("host slots by place", host_slots_by_place, {"slot_mapping": "host"} | SLOTS, "slot_ownership"),
    ("one token too late", one_token_too_late, {"token_gather": "cat"}, "positions"),
    ("kernel blocks not cut", kernel_blocks_not_cut, STATE, "slot_ownership"),
    ("placeholders leak", placeholders_leak, ASYNC, "row_ownership"),
    ("row of the neighbour", row_of_the_neighbour, {"token_handoff": "async_scatter"}, "positions"),
    ("windows never pass", windows_never_pass, HYBRID, "row_ownership"),
    ("last token not written", last_token_not_written, {}, "text"),
    ("all of the chunk seen", all_of_the_chunk_seen, {"speculative": 3}, "text"),
    ("mask without causality", mask_without_causality, MASK | {"speculative": 3}, "text"),
    ("mask without windows", mask_without_windows, MASK | HYBRID, "text"),
    ("first key not seen", first_key_not_seen, MASK, "text"),
    ("keys by the row of the neighbour", keys_by_the_row_of_the_neighbour, MASK, "text"),
    ("rotated by zero", rotated_by_zero, HOST, "text"),
]
