"""On a GPU: with drafts, graphs and two steps in flight the greedy text is transformers', whoever corrects counts."""

import numpy as np
import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
TIGHT = {"max_num_batched_tokens": 64, "max_num_seqs": 16, "num_blocks": 120}
GRAPHS = {"graph_mode": "full_and_piecewise", "capture_sizes": (5, 10, 20, 40, 64)}


@pytest.fixture
def known(gpu_reference):
    return {req_id: np.asarray(tokens, dtype=np.int32) for req_id, tokens in gpu_reference.outputs.items()}


@pytest.mark.parametrize("acceptance", ["synthetic:all", "synthetic:none", "synthetic:0.6"])
@pytest.mark.parametrize(
    "switches",
    [
        {},
        {"token_handoff": "async_auto"},
        {"token_handoff": "async_auto", "correction": "device"},
        {"token_handoff": "async_auto", "correction": "device", "copy_stream": "dedicated", "device_buffers": "double"},
    ],
    ids=["sync", "host", "device", "device, double"],
)
def test_synthetic_drafts(run, gpu_reference, known, acceptance, switches):
    outcome = run(
        gpu_reference.requests, "cuda", known=known, speculative=4, acceptance=acceptance, check="every", **TIGHT,
        **GRAPHS, **switches,
    )  # fmt: skip
    assert outcome.num_resumed > 1
    assert (outcome.num_accepted > 0) == (acceptance != "synthetic:none")
    assert outcome.outputs == gpu_reference.outputs


def test_lookup_and_the_correction_at_full_speed(run, gpu_reference, known):
    # GIVEN no checks, which would wait for the device in every step
    looked_up = run(gpu_reference.requests, "cuda", speculative=3, ngram_min=1, **TIGHT, **GRAPHS)
    assert looked_up.outputs == gpu_reference.outputs
    corrected = run(
        gpu_reference.requests, "cuda", known=known, speculative=3, acceptance="synthetic:alternate",
        token_handoff="async_scatter", correction="device", batch_state="stable_slots", **TIGHT, **GRAPHS,
    )  # fmt: skip
    assert corrected.outputs == gpu_reference.outputs
