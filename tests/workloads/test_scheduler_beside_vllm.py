"""Whole step streams of random loads, block ids and all: those of vLLM 0.33's schedulers (see the digests)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .vllm_scenarios import load_of, our_stream

STREAMS = json.loads((Path(__file__).parent / "data" / "vllm_0_33_streams.json").read_text())
SHORT = {"block_size": 4, "num_blocks": 7, "max_model_len": 16, "enable_prefix_caching": False}
AHEAD = {"async_scheduling": True, **SHORT}


@pytest.mark.parametrize("name", STREAMS)
def test_the_stream_is_vllms(name: str) -> None:
    # GIVEN limits and requests drawn by a seed, one or two steps in the queue, drafts, windows
    mode, seed = name.split()
    # WHEN our scheduler serves them THEN it makes the same steps with the same rows, in the same blocks
    assert list(our_stream(load_of(mode, int(seed)))) == STREAMS[name]


@pytest.mark.parametrize("deliver", [False, True])
def test_who_is_preempted_waits_for_what_is_in_flight(rig, ask, deliver: bool) -> None:
    # GIVEN two requests that fill their blocks together, six blocks for them, two steps in flight
    served = rig(deliver_late=deliver, **AHEAD)
    served.add(ask("a", 12, 4), ask("b", 12, 2))
    _, first = served.schedule()
    # WHEN the second is preempted with its first token in flight
    delta, second = served.schedule()
    assert delta.preempted_req_ids == ("b",)
    served.deliver(first)
    # THEN that token counts where it is delivered, and is sampled again where it is not
    assert len(served.history["b"]) == 12 + deliver
    # and while one is in flight nobody resumes it
    delta, third = served.schedule()
    assert "b" not in delta.num_scheduled_tokens
    for result in (second, third):
        served.deliver(result)
    served.drain()
    assert [len(served.history[name]) for name in "ab"] == [16, 14]


def test_a_request_may_end_while_it_waits(rig, ask) -> None:
    # GIVEN a request of one token, preempted while that is in flight
    served = rig(deliver_late=True, **AHEAD)
    served.add(ask("a", 12, 4), ask("b", 12, 2))
    _, first = served.schedule()
    served.schedule()
    served.scheduler._states["b"].limit = 13
    # WHEN it comes back
    served.deliver(first)
    # THEN it is answered, and the next step tells the worker
    assert served.scheduler.num_unfinished == 1
    assert served.scheduler.schedule().finished_req_ids == {"b"}


def test_a_backed_up_queue_is_not_held(rig, batch) -> None:
    # GIVEN prompts in every fourth step only, and a budget that three steps of prompts need
    served = rig(prefill_schedule_interval=4, max_num_batched_tokens=100, max_num_seqs=16, num_blocks=400)
    served.add(*batch(10, 30, 40))
    # WHEN the first step leaves some in the queue THEN the others follow at once: holding would let it grow
    assert [len(delta.new_requests) for delta in served.steps(5)] == [4, 3, 3, 0, 0]
