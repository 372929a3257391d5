"""What a runner's configuration must satisfy, as a table: each impossible combination with its reason and its mend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..errors import UsageError
from ..instrumentation.capture_sizes import Sizes, resolve_sizes, round_to_decodes
from ..workloads.acceptance import NGRAM, parse_acceptance
from .config import RunnerConfig
from .kv_groups import resolve_groups


@dataclass(frozen=True, slots=True)
class Rule:
    """`broken` says whether a configuration breaks the rule; `message` is formatted with the configuration as `c`."""

    broken: Callable[[RunnerConfig], bool]
    message: str


def blocks_per_sequence(config: RunnerConfig) -> int:
    """Blocks, as kernels see them, that a sequence of max_model_len tokens takes in the group that needs most."""
    return max(group.blocks_for(config.max_model_len) for group in resolve_groups(config))


_MOST = 2**31 - 1
"""Rows, boundaries, lengths and block ids are int32."""

RULES = (
    Rule(lambda c: c.max_num_seqs < 1, "max_num_seqs: {c.max_num_seqs} is below 1; a batch needs a row"),
    Rule(lambda c: c.max_model_len < 1, "max_model_len: {c.max_model_len} is below 1; a sequence needs a token"),
    Rule(lambda c: c.block_size < 1, "block_size: {c.block_size} is below 1; a KV block holds at least one token"),
    Rule(
        lambda c: c.kernel_block_size is not None and c.kernel_block_size < 1,
        "kernel_block_size: {c.kernel_block_size} is below 1; a kernel's block holds at least one token",
    ),
    Rule(lambda c: c.num_blocks < 2, "num_blocks: {c.num_blocks} is below 2; block 0 is the null block"),
    Rule(lambda c: c.dcp < 1, "dcp: {c.dcp} is below 1; 1 rank is decode context parallelism off"),
    Rule(lambda c: c.dcp_interleave < 1, "dcp_interleave: {c.dcp_interleave} is below 1; a rank's turn has a token"),
    Rule(
        lambda c: c.dcp == 1 and c.dcp_interleave != 1,
        "dcp_interleave: {c.dcp_interleave} means nothing with dcp 1, where one rank holds every token; use 1",
    ),
    Rule(
        lambda c: c.kernel_block_size is None and c.block_size % c.dcp_interleave != 0,
        "dcp_interleave: {c.dcp_interleave} does not divide block_size = {c.block_size}; a turn that ends in another"
        " block would be two; use a divisor",
    ),
    Rule(
        lambda c: c.kernel_block_size is not None and c.kernel_block_size % c.dcp_interleave != 0,
        "dcp_interleave: {c.dcp_interleave} does not divide kernel_block_size = {c.kernel_block_size}; a turn that ends"
        " in another block would be two; use a divisor",
    ),
    Rule(
        lambda c: c.scheduler_block_size > _MOST,
        "dcp: a block of {c.block_size} tokens on each of {c.dcp} ranks passes 2147483647, the most that 32-bit"
        " lengths can say; use fewer ranks",
    ),
    Rule(
        lambda c: c.dcp > 1 and c.kv_groups != ("full",),
        "kv_groups: {c.kv_groups} with dcp {c.dcp}: a window begins elsewhere in each rank's part of the keys, and a"
        " state is not cut at all; use full alone, or dcp 1",
    ),
    Rule(
        lambda c: c.dcp > 1 and c.attention == "triton",
        "attention: triton with dcp {c.dcp}: its kernels keep no log-sum-exp that ranks could be merged by; use torch",
    ),
    Rule(
        lambda c: c.max_num_batched_tokens < 1,
        "max_num_batched_tokens: {c.max_num_batched_tokens} is below 1; a step needs a token",
    ),
    Rule(
        lambda c: c.table_width is not None and c.table_width < blocks_per_sequence(c),
        "table_width: {c.table_width} blocks do not reach max_model_len = {c.max_model_len} in every KV cache group;"
        " widen the table or shorten max_model_len",
    ),
    Rule(
        lambda c: c.staging == "pinned_ring" and c.ring_slots < 1,
        "ring_slots: {c.ring_slots} is below 1; a ring needs at least one slot",
    ),
    Rule(
        lambda c: c.copy_stream == "compute" and c.device_buffers == "single_unguarded" and c.staging != "zero_copy",
        "device_buffers: single_unguarded means nothing on copy_stream compute, where the stream orders copies and"
        " readers; use single_guarded",
    ),
    Rule(
        lambda c: c.batch_state == "rebuild" and c.block_table_commit != "full",
        "block_table_commit: {c.block_table_commit} with batch_state rebuild, which writes every row in each step:"
        " nothing is ever clean; use full",
    ),
    Rule(
        lambda c: c.batch_state == "rebuild" and c.commit_order == "skip",
        "commit_order: skip with batch_state rebuild, which writes every row in each step: no copy can ever be skipped;"
        " use persistent or stable_slots",
    ),
    Rule(
        lambda c: c.batch_state == "stable_slots" and c.reorder != "off",
        "reorder: {c.reorder} swaps rows, and with batch_state stable_slots rows never move: an index map has decodes"
        " first already; use off",
    ),
    Rule(
        lambda c: c.staging == "zero_copy" and c.copy_stream != "compute",
        "copy_stream: {c.copy_stream} with staging zero_copy, where nothing is copied; use compute",
    ),
    Rule(
        lambda c: c.staging == "zero_copy" and c.h2d_packing != "separate",
        "h2d_packing: {c.h2d_packing} with staging zero_copy, where nothing is copied; use separate",
    ),
    Rule(
        lambda c: c.staging == "zero_copy" and c.device_buffers == "staged_d2d",
        "device_buffers: staged_d2d with staging zero_copy, where nothing is copied that could land; use double, or"
        " single_guarded",
    ),
    Rule(
        lambda c: c.staging == "zero_copy" and c.block_table_commit == "dirty_rows",
        "block_table_commit: dirty_rows with staging zero_copy, where rows are read on the host and none travels; use"
        " full, or staged, whose differences are read there",
    ),
    Rule(
        lambda c: c.staging == "zero_copy" and c.correction == "device",
        "correction: device changes lengths where they lie, and with staging zero_copy that is the host's own memory;"
        " use another staging, or correction host",
    ),
    Rule(
        lambda c: c.copy_stream == "compute" and c.device_buffers in ("double", "staged_d2d")
        and c.staging != "zero_copy",
        "device_buffers: {c.device_buffers} means nothing on copy_stream compute, where a copy waits for the forward"
        " before it whatever it fills; use copy_stream dedicated",
    ),
    Rule(
        lambda c: c.attention_mask == "explicit" and c.attention == "triton",
        "attention_mask: explicit with attention triton, whose kernels take no mask; use attention torch, or auto",
    ),
    Rule(
        lambda c: c.attention_mask == "explicit" and c.dcp > 1,
        "attention_mask: explicit with dcp {c.dcp}: it stands over all keys of the step, and each rank holds a part of"
        " them; use implicit, or dcp 1",
    ),
    Rule(
        lambda c: c.attention_mask == "explicit" and c.graph_mode.startswith("full"),
        "attention_mask: explicit has another size in every step, queries times keys, and graph_mode {c.graph_mode}"
        " captures attention at fixed sizes; use graph_mode piecewise or none",
    ),
    Rule(
        lambda c: c.attention_mask == "explicit" and c.staging == "zero_copy",
        "attention_mask: explicit with staging zero_copy, where the host would write the mask that the forward before"
        " still reads in place; use another staging",
    ),
    Rule(
        lambda c: c.attention_mask == "explicit" and c.correction == "device",
        "attention_mask: explicit is written on the host from lengths that correction device changes on the device; use"
        " correction host",
    ),
    Rule(
        lambda c: c.prompt_embeds != "off" and c.staging == "zero_copy",
        "prompt_embeds: {c.prompt_embeds} with staging zero_copy, where the host would write the embeddings that the"
        " forward before still reads in place; use another staging",
    ),
    Rule(
        lambda c: c.max_capture_size is not None and not isinstance(c.capture_sizes, str)
        and max(c.capture_sizes, default=0) > c.max_capture_size,
        "capture_sizes: {c.capture_sizes} passes max_capture_size = {c.max_capture_size}; drop one of the two",
    ),
    Rule(
        lambda c: c.speculative != "off" and c.num_drafts < 1,
        "speculative: {c.speculative} is no number of drafts; give 1 or more, or off",
    ),
    Rule(
        lambda c: c.num_drafts > 0 and c.decode_query_len > c.max_num_batched_tokens,
        "speculative: a decode with {c.speculative} drafts has {c.decode_query_len} tokens, max_num_batched_tokens is"
        " {c.max_num_batched_tokens}; raise it or draft less",
    ),
    Rule(
        lambda c: not 1 <= c.ngram_min <= c.ngram_max,
        "ngram_min: {c.ngram_min} and ngram_max: {c.ngram_max} name no length; use 1 <= ngram_min <= ngram_max",
    ),
    Rule(
        lambda c: c.correction == "device" and c.num_drafts == 0,
        "correction: device corrects rejected drafts, and without speculative there are none; use host",
    ),
    Rule(
        lambda c: c.correction == "device" and c.token_handoff == "sync",
        "correction: device corrects counts that are still in flight, and with token_handoff sync none are; use host,"
        " or an asynchronous hand-off",
    ),
    Rule(
        lambda c: c.correction == "device" and c.acceptance == NGRAM,
        "correction: device never waits for tokens, but ngram looks drafts up in them on the host; use correction host,"
        " or a synthetic acceptance",
    ),
    Rule(
        lambda c: c.correction == "device" and c.slot_mapping == "host",
        "slot_mapping: host maps positions that correction device changes on the device; use triton or torch",
    ),
)  # fmt: skip

HAZARD = Rule(
    lambda c: c.device_buffers == "single_unguarded" and (c.copy_stream == "dedicated" or c.staging == "zero_copy"),
    "device_buffers: single_unguarded overwrites tables that a forward still reads; it exists for hazard tests only,"
    " use single_guarded",
)


def validate(config: RunnerConfig, *, allow_hazards: bool = False) -> Sizes:
    """Refuse what cannot run, in one line that names the field; returns the capture sizes, empty without graphs.

    `allow_hazards` lets a test build a runner whose buffers race. Raises UsageError.
    """
    _check_known_values(config)
    parse_acceptance(config.acceptance)
    for rule in RULES if allow_hazards else (*RULES, HAZARD):
        if rule.broken(config):
            raise UsageError(rule.message.format(c=config))
    resolve_groups(config)
    sizes = resolve_sizes(  # without graphs too: a list that can never be captured is a mistake at once, not later
        config.capture_sizes,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_capture_size=config.max_capture_size,
        num_speculative_tokens=config.num_drafts,
    )
    if config.num_drafts and config.dispatch_rules == "v1":
        sizes = round_to_decodes(sizes, config.decode_query_len, config.max_num_batched_tokens)
    return () if config.graph_mode == "none" else sizes


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(RunnerConfig)


def _check_known_values(config: RunnerConfig) -> None:
    for field, kind in _types().items():
        value = getattr(config, field)
        if get_origin(kind) is Literal and value not in get_args(kind):
            known = ", ".join(map(str, get_args(kind)))
            raise UsageError(f"{field}: unknown value {value!r}; known are {known}")
        if isinstance(value, int) and field != "model_seed" and value > _MOST:
            raise UsageError(f"{field}: {value} is above {_MOST}, the most that 32-bit lengths and ids can say")
