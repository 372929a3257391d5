"""Two steps in flight: the greedy text is Hugging Face's all the same, whatever happens to a request meanwhile."""

from dataclasses import replace

import pytest
from stepscope.workloads.step import SamplingParams

ASYNC = ("async_slice", "async_scatter", "async_auto")
TIGHT = {"max_num_seqs": 16, "num_blocks": 240}


@pytest.mark.parametrize("handoff", ASYNC)
def test_chunks_preemptions_and_resumes(run, reference, handoff):
    # GIVEN a budget that cuts most prompts, and leaves decodes out while it does; a pool that cannot hold all that run
    outcome = run(
        reference.requests, token_handoff=handoff, check="every", max_num_batched_tokens=48, max_num_seqs=16,
        num_blocks=241,
    )  # fmt: skip
    # THEN prompts were cut, requests preempted and resumed while a token was in flight, and the text is the same
    assert outcome.num_cut > 20
    assert outcome.num_resumed > 3
    assert outcome.outputs == reference.outputs
