"""Two steps in flight: the text is the one of a step at a time, whatever happens to a request meanwhile."""

from dataclasses import replace

import pytest
from stepscope.workloads.step import SamplingParams

TIGHT = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 171}


@pytest.fixture(scope="module")
def reference(reference, fewer):
    """Enough requests to be cut, preempted and resumed in the tight pool; test_equality.py runs all to their end."""
    return fewer(reference, 18, 20)


@pytest.mark.parametrize("handoff", ["async_slice", "async_scatter", "async_auto"])
def test_chunks_preemptions_and_resumes(run, reference, handoff):
    # GIVEN a budget that cuts most prompts, and leaves decodes out while it does; a pool that cannot hold all that run
    outcome = run(reference.requests, token_handoff=handoff, check="every", **TIGHT)
    # THEN prompts were cut, requests preempted and resumed while a token was in flight, and the text is Hugging Face's
    assert outcome.num_cut > 20
    assert outcome.num_resumed > 3
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize(
    "switches",
    [
        {"device": "sim", "graph_mode": "full_and_piecewise", "capture_sizes": (8, 16, 32)},
        {"copy_stream": "dedicated", "slot_mapping": "host", "commit_order": "last", "token_gather": "cat"},
        {"device": "sim", "copy_stream": "dedicated", "device_buffers": "double", "staging": "pinned_single"},
        {"staging": "pageable", "logits": "all_positions", "slot_mapping": "torch"},
    ],
    ids=["graphs", "host", "double", "pageable"],
)
def test_other_strategies_give_the_same_text(run, reference, switches):
    assert run(reference.requests, token_handoff="async_auto", **(TIGHT | switches)).outputs == reference.outputs


def test_resets_in_mid_flight(run, reference):
    outcome = run(reference.requests, resets=(5, 20, 21), token_handoff="async_auto", check="every", max_num_seqs=16)
    assert outcome.num_resumed >= 16
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize("handoff", ["sync", "async_auto"])
def test_two_halves_in_turns(run, reference, handoff):
    # GIVEN a queue of two steps whose requests wait for their tokens: each sits out every second step
    outcome = run(reference.requests, in_turns=True, token_handoff=handoff, check="every", max_num_batched_tokens=640)
    assert outcome.outputs == reference.outputs


def test_drawn_text_is_the_same_although_tokens_were_dropped(run, reference):
    # GIVEN requests that sample, every other with a seed of its own
    requests = [
        replace(request, sampling=SamplingParams(0.8, top_k=40, top_p=0.95, seed=i if i % 2 else None))
        for i, request in enumerate(reference.requests[:16])
    ]
    # WHEN they run at ease one step at a time, and two steps at a time with preemptions while a token is in flight
    at_ease = run(requests).outputs
    pressed = run(requests, token_handoff="async_auto", resets=(9, 25), check="every", **TIGHT)
    # THEN each has the same text: what was drawn for a dropped token is drawn again for the one in its place
    assert pressed.num_resumed > 3
    assert pressed.outputs == at_ease
    assert all(at_ease[request.req_id] != reference.outputs[request.req_id] for request in requests)
