"""The arrangements of a runner that stand under fire: every batch state with every commit, every hand-off, drafts,
groups, ranks, padding.
"""

HYBRID = {"kv_groups": ("full", "window=9"), "model": "tiny", "num_blocks": 84}
STATE = {"kv_groups": ("full", "window=9/2", "state"), "model": "tiny", "kernel_block_size": 2, "num_blocks": 120}
HOST = {"token_handoff": "async_auto", "speculative": 3, "acceptance": "synthetic:0.7"}
DEVICE = HOST | {"correction": "device"}
SLOTS = {"batch_state": "stable_slots"}
REBUILD = {"batch_state": "rebuild"}
PINNED = {"device": "sim"}
DEDICATED = {"copy_stream": "dedicated"}
TWO = {"dcp": 2, "num_blocks": 23}
GRAPHS = {"capture_sizes": (4, 8, 16, 24, 40)}

ARRANGEMENTS = {
    "persistent, full, sync, pinned": PINNED,
    "persistent, dirty_rows, async_slice": {"block_table_commit": "dirty_rows", "token_handoff": "async_slice"},
    "persistent, staged, double, drafts corrected on the device": (
        {"block_table_commit": "staged", "device_buffers": "double"} | PINNED | DEDICATED | DEVICE
    ),
    "persistent, reordered, padded, drafts, embeddings in a table": (
        {"reorder": "decode_first", "graph_mode": "full_and_piecewise", "speculative": 2} | GRAPHS
        | {"prompt_embeds": "dense_table"}
    ),
    "persistent, hybrid, skip, async": {"commit_order": "skip", "token_handoff": "async_auto"} | HYBRID,
    "persistent, three groups, last, staged_d2d, reordered, drafts corrected on the device": (
        {"commit_order": "last", "device_buffers": "staged_d2d", "reorder": "decode_first", "dispatch_rules": "v1"}
        | {"block_table_commit": "dirty_rows", "graph_mode": "full"} | DEDICATED | GRAPHS | STATE | DEVICE
    ),
    "slots, full, mapped on the host, async_scatter": (
        {"slot_mapping": "host", "token_handoff": "async_scatter"} | SLOTS
    ),
    "slots, dirty_rows, hybrid, pinned, drafts, embeddings": (
        {"block_table_commit": "dirty_rows", "speculative": 3, "prompt_embeds": "sparse"} | PINNED | SLOTS | HYBRID
    ),
    "slots, staged, packed, padded, drafts corrected on the device": (
        {"block_table_commit": "staged", "h2d_packing": "packed", "graph_mode": "full"}
        | PINNED | GRAPHS | SLOTS | DEVICE
    ),
    "slots, staged, three groups, zero_copy, double, drafts corrected on the host": (
        {"block_table_commit": "staged", "staging": "zero_copy", "device_buffers": "double"} | SLOTS | STATE | HOST
    ),
    "rebuild, async_slice, reordered, embeddings in a table": (
        {"token_handoff": "async_slice", "reorder": "decode_first", "prompt_embeds": "dense_table"} | REBUILD
    ),
    "rebuild, hybrid, drafts corrected on the host, cat, pageable, explicit masks": (
        {"token_gather": "cat", "staging": "pageable", "slot_mapping": "torch", "attention_mask": "explicit"}
        | REBUILD | HYBRID | HOST
    ),
    "persistent, two ranks, staged, padded, drafts corrected on the device": (
        {"block_table_commit": "staged", "graph_mode": "full_and_piecewise", "dcp_interleave": 4}
        | TWO | GRAPHS | DEVICE
    ),
    "slots, three ranks, kernel blocks, mapped on the host, packed": (
        {"dcp": 3, "kernel_block_size": 2, "slot_mapping": "host", "h2d_packing": "packed", "num_blocks": 16}
        | PINNED | SLOTS
    ),
}  # fmt: skip
