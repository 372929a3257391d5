"""On a GPU: several KV cache groups, kernel blocks, both rule sets, reordered rows: the text is transformers'."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
TWO = {"kv_groups": ("full", "window=24"), "capture_sizes": (8, 16, 32, 48)}
TIGHT = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 260}


@pytest.mark.parametrize(
    "switches",
    [
        {},
        {"graph_mode": "full", "dispatch_rules": "v1"},
        {"graph_mode": "full_and_piecewise", "reorder": "decode_first", "check": "every"},
        {"graph_mode": "full_and_piecewise", "batch_state": "stable_slots", "block_table_commit": "staged"},
        {"graph_mode": "full_decode_only", "token_handoff": "async_auto", "kernel_block_size": 1},
        {"slot_mapping": "host", "copy_stream": "dedicated", "metadata_reuse": "per_layer"},
        {"kv_groups": ("full", "window=24/2"), "slot_mapping": "torch", "block_size": 8, "num_blocks": 140},
    ],
    ids=lambda switches: ",".join(map(str, switches.values())),
)
def test_two_groups(run, gpu_hybrid_reference, switches):
    outcome = run(gpu_hybrid_reference.requests, "cuda", **(TWO | TIGHT | switches))
    assert outcome.num_resumed > 3
    assert outcome.outputs == gpu_hybrid_reference.outputs


def test_kernel_blocks(run, gpu_reference):
    outcome = run(
        gpu_reference.requests, "cuda", block_size=12, kernel_block_size=4, graph_mode="full_and_piecewise",
        capture_sizes=(8, 16, 32, 48), **(TIGHT | {"num_blocks": 81}),
    )  # fmt: skip
    assert outcome.num_resumed > 3
    assert outcome.outputs == gpu_reference.outputs
