"""The switches of the laboratory runner. Defaults are written here and nowhere else.

Values that later design steps add are absent on purpose: an unknown value is refused with the list of known ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CommitOrder = Literal["first", "last", "skip"]
BatchState = Literal["persistent", "stable_slots", "rebuild"]
BlockTableCommit = Literal["full", "dirty_rows", "staged"]
CopyStream = Literal["compute", "dedicated"]
H2DPacking = Literal["separate", "packed"]
History = Literal["pageable", "pinned"]
DeviceBuffers = Literal["single_guarded", "single_unguarded", "double", "staged_d2d"]
Staging = Literal["pinned_ring", "pinned_single", "pageable", "fresh_pinned", "zero_copy"]
TokenGather = Literal["index_select", "cat"]
SlotMappingBackend = Literal["triton", "torch", "host"]
LogitsMode = Literal["last_position", "all_positions"]
GraphModeSwitch = Literal["none", "piecewise", "full", "full_decode_only", "full_and_piecewise"]
AttentionMask = Literal["implicit", "explicit"]
PromptEmbedsSwitch = Literal["off", "sparse", "dense_table"]
AttentionSwitch = Literal["auto", "torch", "triton"]
Reorder = Literal["off", "decode_first"]
DispatchRulesSwitch = Literal["v1", "v2"]
MetadataReuse = Literal["shared", "per_layer"]
TokenHandoff = Literal["sync", "async_slice", "async_scatter", "async_auto"]
Correction = Literal["host", "device"]
CheckMode = Literal["off", "sample", "every"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerConfig:
    """Sizes and switches of one runner.

    max_num_seqs            rows of the input batch
    max_num_batched_tokens  capacity of the flat token buffers, the scheduler's budget
    max_model_len           longest sequence; with block_size it sets the block table's width
    num_blocks              KV blocks on the device, block 0 (the null block) included
    ring_slots              slots of a pinned ring
    capture_sizes           "default", "vllm", "exact", or the sizes themselves; in a spec also "optimal", the list that
                            is best for its workload by the calibrated curve
    table_width             block-table width in blocks of every group; None derives it from max_model_len
    kv_groups               what each KV cache group keeps: "full", "window=128" or "state", each with "/32" behind it
                            for a block size of its own; in the order of a request's block lists
    kernel_block_size       tokens a block as kernels see it; None is the manager's, which must be a multiple
    dcp                     ranks of decode context parallelism: each holds `block_size` tokens of every block, so a
                            block of the scheduler's has dcp times as many. The ranks live side by side in one process
                            and one device does their work in turn: tokens, tables, slots and lengths are theirs, and
                            no collective is run or charged
    dcp_interleave          tokens in a row that lie on one rank
    token_handoff           "sync" brings a step's tokens to the host before the next begins; otherwise two steps are in
                            flight and a token enters the next step on the device: "async_slice" by one copy where all
                            rows are where they were (else the host waits for it), "async_scatter" by a map of rows,
                            "async_auto" by the cheaper one that will do
    speculative             "off", or the number of drafts that a request brings to a step
    acceptance              where drafts come from: "ngram" looks them up in the request's own text; "synthetic:all",
                            "synthetic:none", "synthetic:alternate" and "synthetic:0.6" take them from a continuation
                            that is known before, and spoil as many as that says
    correction              who takes rejected drafts off the counts of the step that is prepared meanwhile
    ngram_min, ngram_max    fewest and most tokens that must have occurred before for "ngram" to propose
    verify_copies           take checksums of staged buffers before their copies, of what arrived, and of block tables
                            behind their last reader: hazards are observed then, not only known to be possible. It costs
                            time: nothing else of such a run is worth measuring
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    block_size: int = 16
    num_blocks: int = 8192
    table_width: int | None = None
    kv_groups: tuple[str, ...] = ("full",)
    kernel_block_size: int | None = None
    dcp: int = 1
    dcp_interleave: int = 1
    model: str = "tiny"
    model_seed: int = 0
    batch_state: BatchState = "persistent"
    block_table_commit: BlockTableCommit = "full"
    commit_order: CommitOrder = "first"
    copy_stream: CopyStream = "compute"
    device_buffers: DeviceBuffers = "single_guarded"
    staging: Staging = "pinned_ring"
    ring_slots: int = 2
    h2d_packing: H2DPacking = "separate"
    history: History = "pageable"
    token_gather: TokenGather = "index_select"
    slot_mapping: SlotMappingBackend = "triton"
    logits: LogitsMode = "last_position"
    attention: AttentionSwitch = "auto"
    attention_mask: AttentionMask = "implicit"
    reorder: Reorder = "off"
    metadata_reuse: MetadataReuse = "shared"
    prompt_embeds: PromptEmbedsSwitch = "off"
    graph_mode: GraphModeSwitch = "none"
    dispatch_rules: DispatchRulesSwitch = "v2"
    capture_sizes: str | tuple[int, ...] = "default"
    max_capture_size: int | None = None
    token_handoff: TokenHandoff = "sync"
    speculative: Literal["off"] | int = "off"
    acceptance: str = "ngram"
    correction: Correction = "host"
    ngram_min: int = 2
    ngram_max: int = 4
    check: CheckMode = "off"
    verify_copies: bool = False

    @property
    def num_drafts(self) -> int:
        """Most drafts that a request brings to a step, 0 without speculation."""
        return 0 if isinstance(self.speculative, str) else max(0, self.speculative)

    @property
    def scheduler_block_size(self) -> int:
        """Tokens of a block of all ranks together, which is what a scheduler hands out."""
        return self.block_size * self.dcp

    @property
    def decode_query_len(self) -> int:
        """Tokens of a decode that brings all its drafts."""
        return 1 + self.num_drafts
