"""On a GPU: graphs, padding, pinned memory and Triton kernels give transformers' greedy text (float32, no TF32)."""

import pytest
import torch
from stepscope.runner.executor import Executor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
TIGHT = {"max_num_seqs": 16, "num_blocks": 240}
CHUNKED = {"max_num_seqs": 16, "max_num_batched_tokens": 48}
SIZES = (7, 23, 45, 256)  # no number of tokens meets them exactly, but the largest


@pytest.fixture
def finite(monkeypatch):
    """Each forward's verdict on its own output, padding included; read at the end, so that no step waits for it."""
    verdicts, forward = [], Executor.run

    def watched(self, plan, inputs, metadata):
        hidden = forward(self, plan, inputs, metadata)
        assert hidden.shape[0] == plan.padded_tokens
        verdicts.append(hidden.isfinite().all())
        return hidden

    monkeypatch.setattr(Executor, "run", watched)
    return lambda: bool(torch.stack(verdicts).all())


@pytest.mark.parametrize("commit_order", ["first", "last"])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_chunked_prefill_preemption_and_resume(run, gpu_reference, finite, block_size, commit_order):
    # GIVEN a budget that cuts most prompts and a pool that cannot hold all that run
    switches = {**CHUNKED, "num_blocks": 1 + 960 // block_size, "block_size": block_size}
    outcome = run(gpu_reference.requests, "cuda", commit_order=commit_order, **switches)
    # THEN prompts were cut, requests preempted and resumed, and nobody can tell from the text
    assert outcome.num_cut > 20
    assert outcome.num_resumed > 3
    assert outcome.outputs == gpu_reference.outputs
    assert finite()


@pytest.mark.parametrize("block_size", [1, 16])
def test_the_same_in_graphs(run, gpu_reference, finite, block_size):
    switches = {**CHUNKED, "num_blocks": 1 + 960 // block_size, "block_size": block_size, "check": "every"}
    outcome = run(
        gpu_reference.requests, "cuda", commit_order="last", graph_mode="full_and_piecewise", capture_sizes=(7, 23, 48),
        **switches,
    )  # fmt: skip
    assert outcome.num_resumed > 3
    assert {mode for mode, _ in outcome.dispatch} == {"full", "piecewise"}
    assert outcome.outputs == gpu_reference.outputs
    assert finite()


@pytest.mark.parametrize(
    ("graph_mode", "modes"),
    [
        ("none", {"none"}),
        ("full", {"full"}),
        ("piecewise", {"piecewise"}),
        ("full_decode_only", {"full", "none"}),
        ("full_and_piecewise", {"full", "piecewise"}),
    ],
)
def test_padded_graphs(run, gpu_reference, finite, graph_mode, modes):
    outcome = run(gpu_reference.requests, "cuda", graph_mode=graph_mode, capture_sizes=SIZES, **TIGHT)
    assert {mode for mode, _ in outcome.dispatch} == modes
    assert outcome.outputs == gpu_reference.outputs
    assert finite(), "padding included"


@pytest.mark.parametrize("copy_stream", ["compute", "dedicated"])
@pytest.mark.parametrize("staging", ["pinned_ring", "pageable", "fresh_pinned"])
@pytest.mark.parametrize("slot_mapping", ["triton", "torch", "host"])
def test_staging_and_slots(run, gpu_reference, staging, slot_mapping, copy_stream):
    switches = {"staging": staging, "slot_mapping": slot_mapping, "copy_stream": copy_stream}
    outcome = run(gpu_reference.requests, "cuda", graph_mode="full", capture_sizes=SIZES, **TIGHT, **switches)
    assert outcome.outputs == gpu_reference.outputs


@pytest.mark.parametrize("graph_mode", ["none", "piecewise"])
def test_the_torch_backend(run, gpu_reference, graph_mode):
    """It synchronises, so it stands in no full graph; between pieces it may."""
    outcome = run(
        gpu_reference.requests, "cuda", attention="torch", graph_mode=graph_mode, capture_sizes=SIZES, **TIGHT
    )
    assert outcome.outputs == gpu_reference.outputs


def test_a_full_graph_in_three_recaptures(run, gpu_reference):
    """Each run builds its own graphs in the memory that the one before gave back."""
    reserved = []
    for _ in range(3):
        outcome = run(gpu_reference.requests[:8], "cuda", graph_mode="full", capture_sizes=SIZES, **TIGHT)
        assert all(gpu_reference.outputs[req_id] == tokens for req_id, tokens in outcome.outputs.items())
        reserved.append(torch.cuda.memory_reserved())
    assert len(set(reserved)) == 1
