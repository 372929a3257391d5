"""On a GPU: two steps in flight give transformers' greedy text, and no step waits for its own tokens."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
TIGHT = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 241}
GRAPHS = {"graph_mode": "full_and_piecewise", "capture_sizes": (7, 23, 48)}


@pytest.mark.parametrize("handoff", ["async_slice", "async_scatter", "async_auto"])
def test_chunks_preemptions_and_resumes(run, gpu_reference, handoff):
    outcome = run(gpu_reference.requests, "cuda", token_handoff=handoff, check="every", **TIGHT, **GRAPHS)
    assert outcome.num_cut > 20
    assert outcome.num_resumed > 3
    assert outcome.outputs == gpu_reference.outputs


@pytest.mark.parametrize(
    "switches",
    [
        {"copy_stream": "dedicated", "device_buffers": "double"},
        {"copy_stream": "dedicated", "slot_mapping": "host"},
        {"staging": "pinned_single", "commit_order": "last"},
        {"staging": "pageable"},
    ],
    ids=["double", "host", "single", "pageable"],
)
def test_other_roads_at_full_speed(run, gpu_reference, switches):
    # GIVEN no checks, which would wait for the device in every step
    outcome = run(
        gpu_reference.requests, "cuda", token_handoff="async_auto", resets=(9, 30), **TIGHT, **GRAPHS, **switches
    )
    assert outcome.outputs == gpu_reference.outputs


@pytest.mark.parametrize("handoff", ["sync", "async_auto"])
def test_two_halves_in_turns(run, gpu_reference, handoff):
    outcome = run(
        gpu_reference.requests, "cuda", in_turns=True, token_handoff=handoff, max_num_batched_tokens=640, **GRAPHS
    )
    assert outcome.outputs == gpu_reference.outputs
