"""Requests that bring embeddings: a seeded share of them, and no prefix in common with anybody."""

import numpy as np
import pytest
from stepscope.workloads.embeds import with_embeds
from stepscope.workloads.requests import PrefixHashes, Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig
from stepscope.workloads.step import PromptEmbeds, StepResult

REQUESTS = tuple(Request(f"r{number}", 1 + number % 40, 4, 512) for number in range(400))


def test_a_share_of_the_requests_brings_half_of_its_prompt_in_one_piece():
    made = with_embeds(REQUESTS, 0.25, hidden=8, seed=1)
    bring = [request for request in made if request.prompt_embeds is not None]
    assert 75 <= len(bring) <= 125
    for request in bring:
        embeds = request.prompt_embeds
        assert embeds.positions.tolist() == list(range(embeds.positions[0], embeds.end))
        assert embeds.end <= request.prompt_len
        assert embeds.values.shape == (-(-request.prompt_len // 2), 8)
        assert embeds.values.dtype == np.float32
    starts = {int(request.prompt_embeds.positions[0]) for request in bring}
    assert len(starts) > 10


def test_who_and_what_follow_from_the_seed():
    def drawn(seed):
        made = with_embeds(REQUESTS, 0.5, hidden=4, seed=seed)
        return {one.req_id: one.prompt_embeds.values.tobytes() for one in made if one.prompt_embeds is not None}

    assert drawn(1) == drawn(1) != drawn(2)
    assert with_embeds(REQUESTS, 0.0, 4, seed=1) == REQUESTS
    assert all(one.prompt_embeds is not None for one in with_embeds(REQUESTS, 1.0, 4, seed=1))


@pytest.mark.parametrize(("brings", "found"), [(False, 8), (True, 0)])
def test_equal_ids_are_no_cached_prefix_where_embeddings_stand_among_them(brings, found):
    # GIVEN a prompt of nine tokens that was computed
    scheduler = Scheduler(SchedulerConfig(max_num_seqs=4, max_model_len=64, block_size=4, num_blocks=32))
    embeds = PromptEmbeds(np.array([2]), np.zeros((1, 4), dtype=np.float32)) if brings else None
    prefix = PrefixHashes(9, (7,))
    scheduler.add_request(Request("a", 9, 1, 512, prefix=prefix))
    delta = scheduler.schedule()
    scheduler.update(StepResult(delta.step, {"a": (1,)}))
    # WHEN the same token ids come again
    scheduler.add_request(Request("b", 9, 1, 512, prefix=prefix, prompt_embeds=embeds))
    (new,) = scheduler.schedule().new_requests
    # THEN they are found unless embeddings stand among them, which travel with the request
    assert new.num_computed_tokens == found
    assert new.prompt_embeds is embeds
