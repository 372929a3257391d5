"""Parameters of each regime as they were published or recorded; the defaults cost fewer tokens."""

from __future__ import annotations

PUBLISHED: dict[str, dict[str, object]] = {
    "steady": {"num_reqs": 64, "prompt_len": 512, "output_len": 256, "max_num_seqs": 128},
    "alternating": {"output_len": 128, "max_num_seqs": 128},
    "condense_storm": {},
    "mass_preempt": {},
    "ping_pong": {},
    "forced_reset": {
        "num_reqs": 128,
        "prompt_len": 512,
        "output_len": 256,
        "max_num_batched_tokens": 8192,
        "reset_steps": (60, 120, 180),
    },
    "thrash": {
        "num_reqs": 400,
        "prompt_low": 64,
        "prompt_high": 4096,
        "output_low": 32,
        "output_high": 512,
        "num_blocks": 2000,
        "enable_prefix_caching": False,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 2048,
    },
    "chunked": {
        "num_reqs": 65,
        "long_prompt_len": 10_000,
        "num_long": 1,
        "long_output_len": 4,
        "prompt_len": 64,
        "output_len": 60,
        "max_num_seqs": 128,
        "max_model_len": 16_384,
    },
    "short_extend": {"prefix_len": 512, "max_num_batched_tokens": 3333, "max_model_len": 16_384},
    "spec_rollback": {"num_reqs": 16, "prompt_len": 100, "output_len": 60, "num_speculative_tokens": 4},
    "hybrid": {
        "prefix_len": 2048,
        "output_len": 64,
        "kv_groups": ("full", "window=128", "window=1024"),
        "max_num_seqs": 128,
    },
    "kernel_blocks": {"num_reqs": 64, "prompt_len": 512, "output_len": 128, "max_num_seqs": 128},
    "prefix_storm": {
        "num_reqs": 256,
        "prefix_len": 2048,
        "suffix_len": 64,
        "output_len": 64,
        "max_num_batched_tokens": 8192,
    },
    "churn": {
        "num_reqs": 256,
        "num_requests": 600,
        "prompt_lens": (75, 578, 1469, 2744, 5187),
        "output_lens": (6, 9, 13, 24, 55),
        "max_num_batched_tokens": 8192,
    },
    "graph_edge": {"sizes": (513, 512, 257, 256, 249, 248, 17, 16, 9, 8), "max_num_batched_tokens": 8192},
    "long_row": {"num_reqs": 256, "long_len": 131_072, "short_len": 1024, "max_num_batched_tokens": 8192},
}
