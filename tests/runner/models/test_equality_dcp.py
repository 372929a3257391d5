"""Greedy equality with Hugging Face where the KV of every sequence is cut among ranks."""

from dataclasses import replace

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.runner.config import RunnerConfig
from stepscope.runner.kv_groups import resolve_groups
from stepscope.runner.models.config import NAMED
from stepscope.runner.wiring import layer_specs
from stepscope.workloads.requests import PrefixHashes, Request

TIGHT = {"max_num_seqs": 6, "max_num_batched_tokens": 40, "max_model_len": 192, "check": "every"}
GRAPHS = {"capture_sizes": (8, 24, 40)}
SOME, OUTPUTS = 9, 12
CASES = [
    {"dcp": 2},
    {"dcp": 4, "dcp_interleave": 2, "slot_mapping": "torch", "graph_mode": "full"} | GRAPHS,
    {"dcp": 3, "dcp_interleave": 4, "slot_mapping": "host", "batch_state": "stable_slots"},
    {"dcp": 2, "dcp_interleave": 2, "block_size": 8, "kernel_block_size": 2, "block_table_commit": "dirty_rows"},
    {"dcp": 2, "speculative": 3, "graph_mode": "piecewise"} | GRAPHS,
    {
        "dcp": 2, "speculative": 3, "acceptance": "synthetic:0.6", "token_handoff": "async_auto", "device": "sim",
        "correction": "device", "copy_stream": "dedicated", "device_buffers": "double",
    },
]  # fmt: skip


@pytest.mark.parametrize("switches", CASES, ids=["plain", "full", "host", "kernel blocks", "drafts", "in flight"])
def test_the_text_is_hugging_faces(run, reference, fewer, switches):
    # GIVEN prompts that are cut, a pool in which requests give way, and a moment when all of them do
    right = fewer(reference, SOME, OUTPUTS)
    known = {req_id: np.asarray(text, dtype=np.int32) for req_id, text in reference.outputs.items()}
    of_all_ranks = switches.get("block_size", 4) * switches["dcp"]
    pool = {"num_blocks": 1 + 240 // of_all_ranks, "resets": (8,), "known": known}
    # WHEN ranks hold a part of every block each
    outcome = run(right.requests, **pool, **TIGHT | switches)
    # THEN together they say the same
    assert outcome.num_cut > 0
    assert outcome.num_resumed > 0
    assert outcome.outputs == right.outputs


def test_a_prefix_of_all_ranks_is_found_again(run, reference):
    # GIVEN prompts that begin with the same 21 tokens, one behind the other, and blocks of 8 tokens on two ranks
    vocab_size = reference.requests[0].vocab_size
    requests = [Request(f"p{n}", 28, 6, vocab_size, prefix=PrefixHashes(7, (1, 2, 3, 10 + n))) for n in range(4)]
    sizes = {"max_num_seqs": 1, "max_num_batched_tokens": 8, "dcp": 2, "dcp_interleave": 2, "check": "every"}
    alone, together = run(requests[:1], **sizes), run(requests, **sizes)
    # THEN whole blocks of them, two chunks of a prompt, are computed once, and the text is what one rank says
    assert together.held["positions"] == 4 * alone.held["positions"] - 3 * 2
    assert together.outputs == run(requests, **sizes | {"dcp": 1, "dcp_interleave": 1}).outputs


def test_a_model_with_windows_is_not_cut():
    groups = resolve_groups(RunnerConfig(dcp=2))
    with pytest.raises(UsageError, match="dcp: 2 ranks with a model of sliding windows"):
        layer_specs(groups, replace(NAMED["tiny"], windows=(None, 24)))
