from dataclasses import replace

import pytest
from stepscope.errors import UsageError
from stepscope.runner.config import RunnerConfig
from stepscope.runner.validity import validate

REFUSED = [
    ({"block_size": 0}, "block_size: 0 is below 1; a KV block holds at least one token"),
    ({"max_num_seqs": 0}, "max_num_seqs: 0 is below 1; a batch needs a row"),
    ({"max_model_len": 0}, "max_model_len: 0 is below 1; a sequence needs a token"),
    ({"max_num_batched_tokens": 0}, "max_num_batched_tokens: 0 is below 1; a step needs a token"),
    ({"num_blocks": 1}, "num_blocks: 1 is below 2; block 0 is the null block"),
    (
        {"table_width": 3, "max_model_len": 64, "block_size": 16},
        "table_width: 3 blocks do not reach max_model_len = 64 in every KV cache group; widen the table or shorten",
    ),
    ({"kernel_block_size": 0}, "kernel_block_size: 0 is below 1; a kernel's block holds at least one token"),
    ({"kernel_block_size": 12}, "kernel_block_size: 12 does not divide the block size 16"),
    ({"kv_groups": ("full", "swa")}, "kv_groups: 'swa' is no group; write full, window=N or state"),
    (
        {"table_width": 16, "max_model_len": 200, "block_size": 32, "kernel_block_size": 8},
        "table_width: 16 blocks do not reach max_model_len = 200",
    ),
    ({"dcp": 0}, "dcp: 0 is below 1; 1 rank is decode context parallelism off"),
    ({"dcp": 2, "dcp_interleave": 0}, "dcp_interleave: 0 is below 1; a rank's turn has a token"),
    ({"dcp_interleave": 4}, "dcp_interleave: 4 means nothing with dcp 1, where one rank holds every token; use 1"),
    (
        {"dcp": 2, "dcp_interleave": 3},
        "dcp_interleave: 3 does not divide block_size = 16; a turn that ends in another block would be two",
    ),
    (
        {"dcp": 2, "dcp_interleave": 8, "kernel_block_size": 4},
        "dcp_interleave: 8 does not divide kernel_block_size = 4; a turn that ends",
    ),
    ({"dcp": 2**28}, "dcp: a block of 16 tokens on each of 268435456 ranks passes 2147483647"),
    (
        {"dcp": 2, "kv_groups": ("full", "window=24")},
        "kv_groups: ('full', 'window=24') with dcp 2: a window begins elsewhere in each rank's part of the keys, and",
    ),
    ({"dcp": 2, "kv_groups": ("full/32",)}, "kv_groups: ('full/32',) with dcp 2"),
    (
        {"dcp": 2, "attention": "triton"},
        "attention: triton with dcp 2: its kernels keep no log-sum-exp that ranks could be merged by; use torch",
    ),
    (
        {"dcp": 2, "table_width": 3, "max_model_len": 128, "block_size": 16},
        "table_width: 3 blocks do not reach max_model_len = 128",
    ),
    ({"metadata_reuse": "layer"}, "metadata_reuse: unknown value 'layer'; known are shared, per_layer"),
    ({"dispatch_rules": "v3"}, "dispatch_rules: unknown value 'v3'; known are v1, v2"),
    ({"ring_slots": 0}, "ring_slots: 0 is below 1; a ring needs at least one slot"),
    ({"device_buffers": "single_unguarded"}, "device_buffers: single_unguarded means nothing on copy_stream compute"),
    (
        {"device_buffers": "single_unguarded", "copy_stream": "dedicated"},
        "device_buffers: single_unguarded overwrites tables that a forward still reads",
    ),
    (
        {"device_buffers": "single_unguarded", "staging": "zero_copy"},
        "device_buffers: single_unguarded overwrites tables that a forward still reads",
    ),
    ({"device_buffers": "double"}, "device_buffers: double means nothing on copy_stream compute"),
    ({"device_buffers": "staged_d2d"}, "device_buffers: staged_d2d means nothing on copy_stream compute"),
    (
        {"batch_state": "rebuild", "block_table_commit": "staged"},
        "block_table_commit: staged with batch_state rebuild, which writes every row in each step: nothing is",
    ),
    ({"batch_state": "rebuild", "commit_order": "skip"}, "commit_order: skip with batch_state rebuild"),
    (
        {"staging": "zero_copy", "copy_stream": "dedicated"},
        "copy_stream: dedicated with staging zero_copy, where nothing is copied; use compute",
    ),
    ({"staging": "zero_copy", "h2d_packing": "packed"}, "h2d_packing: packed with staging zero_copy, where nothing is"),
    ({"staging": "zero_copy", "device_buffers": "staged_d2d"}, "device_buffers: staged_d2d with staging zero_copy"),
    (
        {"staging": "zero_copy", "block_table_commit": "dirty_rows"},
        "block_table_commit: dirty_rows with staging zero_copy, where rows are read on the host and none travels",
    ),
    (
        {
            "correction": "device", "speculative": 2, "token_handoff": "async_auto", "acceptance": "synthetic:all",
            "staging": "zero_copy",
        },
        "correction: device changes lengths where they lie, and with staging zero_copy that is the host's own memory",
    ),
    ({"batch_state": "slots"}, "batch_state: unknown value 'slots'; known are persistent, stable_slots, rebuild"),
    ({"block_table_commit": "some"}, "block_table_commit: unknown value 'some'; known are full, dirty_rows, staged"),
    ({"h2d_packing": "zip"}, "h2d_packing: unknown value 'zip'; known are separate, packed"),
    ({"history": "mapped"}, "history: unknown value 'mapped'; known are pageable, pinned"),
    (
        {"graph_mode": "full", "capture_sizes": (1, 64), "max_num_batched_tokens": 32},
        "capture_sizes: 64 is above the token buffers (max_num_batched_tokens = 32)",
    ),
    (
        {"graph_mode": "full", "capture_sizes": (1, 64), "max_capture_size": 32},
        "capture_sizes: (1, 64) passes max_capture_size = 32; drop one of the two",
    ),
    ({"graph_mode": "full", "capture_sizes": "many"}, "capture_sizes: 'many' is unknown"),
    ({"num_blocks": 2**31}, "num_blocks: 2147483648 is above 2147483647, the most that 32-bit lengths and ids can say"),
    ({"table_width": 2**70}, "table_width: 1180591620717411303424 is above 2147483647"),
    ({"capture_sizes": "many"}, "capture_sizes: 'many' is unknown"),
    ({"capture_sizes": (1, 64), "max_num_batched_tokens": 32}, "capture_sizes: 64 is above the token buffers"),
    ({"capture_sizes": (0, 4)}, "capture_sizes: 0 is not a size"),
    ({"capture_sizes": ()}, "capture_sizes: the list is empty"),
    ({"graph_mode": "fast"}, "graph_mode: unknown value 'fast'; known are none, piecewise, full, full_decode_only,"),
    ({"commit_order": "middle"}, "commit_order: unknown value 'middle'; known are first, last, skip"),
    ({"staging": "copy"}, "staging: unknown value 'copy'; known are pinned_ring,"),
    ({"speculative": 0}, "speculative: 0 is no number of drafts; give 1 or more, or off"),
    ({"speculative": -3}, "speculative: -3 is no number of drafts"),
    (
        {"speculative": 4, "max_num_batched_tokens": 4},
        "speculative: a decode with 4 drafts has 5 tokens, max_num_batched_tokens is 4; raise it or draft less",
    ),
    ({"acceptance": "magic"}, "acceptance: unknown value 'magic'; known are ngram, synthetic:all, synthetic:none,"),
    ({"acceptance": "synthetic:1.2"}, "acceptance: unknown value 'synthetic:1.2'"),
    ({"acceptance": "synthetic:nan"}, "acceptance: unknown value 'synthetic:nan'"),
    ({"ngram_min": 5}, "ngram_min: 5 and ngram_max: 4 name no length; use 1 <= ngram_min <= ngram_max"),
    ({"correction": "device"}, "correction: device corrects rejected drafts, and without speculative there are none"),
    ({"correction": "gpu"}, "correction: unknown value 'gpu'; known are host, device"),
    (
        {"correction": "device", "speculative": 2, "acceptance": "synthetic:all"},
        "correction: device corrects counts that are still in flight, and with token_handoff sync none are; use host,",
    ),
    (
        {"correction": "device", "speculative": 2, "token_handoff": "async_auto"},
        "correction: device never waits for tokens, but ngram looks drafts up in them on the host",
    ),
    (
        {
            "correction": "device", "speculative": 2, "token_handoff": "async_auto", "acceptance": "synthetic:all",
            "slot_mapping": "host",
        },
        "slot_mapping: host maps positions that correction device changes on the device; use triton or torch",
    ),
    ({"attention_mask": "none"}, "attention_mask: unknown value 'none'; known are implicit, explicit"),
    (
        {"attention_mask": "explicit", "attention": "triton"},
        "attention_mask: explicit with attention triton, whose kernels take no mask; use attention torch, or auto",
    ),
    ({"attention_mask": "explicit", "dcp": 2}, "attention_mask: explicit with dcp 2: it stands over all keys of the"),
    *(
        ({"attention_mask": "explicit", "graph_mode": mode}, "attention_mask: explicit has another size in every step")
        for mode in ("full", "full_decode_only", "full_and_piecewise")
    ),
    (
        {"attention_mask": "explicit", "staging": "zero_copy"},
        "attention_mask: explicit with staging zero_copy, where the host would write the mask that the forward before",
    ),
    (
        {
            "attention_mask": "explicit", "correction": "device", "speculative": 2, "token_handoff": "async_auto",
            "acceptance": "synthetic:all",
        },
        "attention_mask: explicit is written on the host from lengths that correction device changes on the device",
    ),
    ({"prompt_embeds": "table"}, "prompt_embeds: unknown value 'table'; known are off, sparse, dense_table"),
    *(
        (
            {"prompt_embeds": design, "staging": "zero_copy"},
            f"prompt_embeds: {design} with staging zero_copy, where the host would write the embeddings that the",
        )
        for design in ("sparse", "dense_table")
    ),
    ({"check": "always"}, "check: unknown value 'always'; known are off, sample, every"),
]


@pytest.mark.parametrize(("switches", "message"), REFUSED)
def test_impossible_configurations_are_refused_in_one_line(switches, message):
    with pytest.raises(UsageError) as caught:
        validate(RunnerConfig(**switches))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_defaults_are_valid_and_capture_nothing():
    assert validate(RunnerConfig()) == ()


def test_a_block_of_all_ranks_is_one_entry_of_the_table():
    sizes = {"table_width": 4, "max_model_len": 128, "block_size": 16}
    assert validate(RunnerConfig(dcp=2, dcp_interleave=16, **sizes)) == ()


def test_sizes_are_resolved_where_graphs_are_on():
    assert validate(RunnerConfig(graph_mode="full", max_capture_size=12)) == (1, 2, 4, 8, 12)


def test_sizes_are_whole_decodes_with_drafts():
    sizes = (1, 2, 3, 4, 5, 9, 16)
    config = RunnerConfig(graph_mode="full", capture_sizes=sizes, speculative=3, dispatch_rules="v1")
    assert validate(config) == (4, 8, 12, 16)
    assert validate(replace(config, dispatch_rules="v2")) == sizes
    # the ladder reaches up to twice max_num_seqs decodes with all drafts
    assert validate(RunnerConfig(graph_mode="full", max_num_seqs=2, speculative=4, dispatch_rules="v1")) == (5, 10, 20)


def test_tests_may_build_a_racing_runner():
    config = RunnerConfig(copy_stream="dedicated", device_buffers="single_unguarded")
    assert validate(config, allow_hazards=True) == ()
