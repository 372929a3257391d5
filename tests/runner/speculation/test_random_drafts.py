"""Random workloads, drafts, limits and resets: the text is that without drafts, and no invariant breaks."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import build_runner
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig

REQUESTS = [Request(f"q{index}", 3 + 5 * index, 14 - index, 512, seed=9) for index in range(6)]
TEXTS: dict[str, np.ndarray] = {}

CORRECTIONS = st.sampled_from(
    [
        {"token_handoff": "sync"},
        {"token_handoff": "async_auto", "correction": "host"},
        {"token_handoff": "async_scatter", "correction": "device"},
    ]
)
STATES = st.sampled_from(["persistent", "stable_slots", "rebuild"])
CASES = st.fixed_dictionaries(
    {
        "speculative": st.integers(1, 6),
        "acceptance": st.sampled_from(["synthetic:all", "synthetic:none", "synthetic:0.5", "synthetic:alternate"]),
        "max_num_seqs": st.integers(1, 6),
        "max_num_batched_tokens": st.integers(7, 40),
        "max_model_len": st.integers(34, 48),
        "num_blocks": st.integers(18, 60),
        "block_size": st.sampled_from([3, 4]),
    }
)


def serve(config: RunnerConfig, limits: dict[str, int], resets: set[int], known=None) -> dict[str, list[int]]:
    ahead = config.token_handoff != "sync"
    scheduler = Scheduler(SchedulerConfig(**limits, num_speculative_tokens=config.num_drafts, async_scheduling=ahead))
    texts: dict[str, list[int]] = {request.req_id: [] for request in REQUESTS}
    waiting = []
    ledger = Ledger()
    with closing(make_device("cpu", ledger=ledger)) as device:
        runner = build_runner(config, device, NullProbe(), ledger, continuations=known)
        for request in REQUESTS:
            scheduler.add_request(request)
        while scheduler.has_unfinished() or scheduler.has_pending_finished():
            delta = scheduler.schedule()
            assert delta.step < 600
            waiting.append(runner.submit(delta))
            if len(waiting) > ahead:
                for req_id, tokens in scheduler.update(waiting.pop(0).result()).items():
                    texts[req_id] += tokens
            if delta.step in resets:
                scheduler.forced_reset()
        for pending in waiting:
            pending.result()
    return texts


def texts_without_drafts() -> dict[str, np.ndarray]:
    if not TEXTS:
        limits = {"max_num_seqs": 6, "max_num_batched_tokens": 64, "max_model_len": 64, "num_blocks": 90}
        config = RunnerConfig(block_size=4, **limits)
        for req_id, tokens in serve(config, limits | {"block_size": 4}, set()).items():
            TEXTS[req_id] = np.asarray(tokens, dtype=np.int32)
    return TEXTS


@settings(max_examples=16, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(case=CASES, road=CORRECTIONS, state=STATES, resets=st.sets(st.integers(0, 25), max_size=3))
def test_any_drafts_leave_the_text_as_it_is(case, road, state, resets) -> None:
    right = texts_without_drafts()
    names = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "num_blocks", "block_size")
    config = RunnerConfig(batch_state=state, check="every", **case, **road)
    # WHEN everything is served in what may be a tight pool with a small budget
    texts = serve(config, {name: case[name] for name in names}, resets, right)
    # THEN each request has its text, cut at the longest sequence
    for request in REQUESTS:
        room = case["max_model_len"] - request.prompt_len
        assert texts[request.req_id] == right[request.req_id][:room].tolist(), request.req_id
