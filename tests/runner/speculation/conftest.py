"""A runner with drafts whose right answers are known, driven by hand-made deltas or by the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import numpy as np
import pytest
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import ModelRunner, build_runner
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig

SIZES = {"max_num_seqs": 6, "max_num_batched_tokens": 64, "max_model_len": 64, "block_size": 4, "num_blocks": 120}
NUM_OUTPUTS = 20


@pytest.fixture
def build() -> Iterator[Callable[..., ModelRunner]]:
    """A runner on the CPU by its switches; closed at the end of the test."""
    with ExitStack() as stack:

        def make(known=None, device="cpu", **switches) -> ModelRunner:
            ledger = Ledger()
            opened = stack.enter_context(closing(make_device(device, ledger=ledger)))
            config = RunnerConfig(**(SIZES | switches))
            return build_runner(config, opened, NullProbe(), ledger, continuations=known)

        yield make


def requests_of(count: int, prompt_len: int = 5, output_len: int = NUM_OUTPUTS) -> list[Request]:
    return [Request(f"r{index}", prompt_len + index, output_len, 512) for index in range(count)]


@pytest.fixture
def requests() -> Callable[..., list[Request]]:
    return requests_of


def serve(runner: ModelRunner, config: SchedulerConfig, asked: list[Request]) -> dict[str, tuple[int, ...]]:
    """All requests to their end, as many steps in flight as the scheduler allows."""
    scheduler, waiting = Scheduler(config), []
    texts: dict[str, tuple[int, ...]] = {request.req_id: () for request in asked}
    for request in asked:
        scheduler.add_request(request)
    while scheduler.has_unfinished() or scheduler.has_pending_finished():
        waiting.append(runner.submit(scheduler.schedule()))
        if len(waiting) > config.async_scheduling:
            for req_id, tokens in scheduler.update(waiting.pop(0).result()).items():
                texts[req_id] += tokens
    for pending in waiting:
        pending.result()
    return texts


@pytest.fixture
def run_all(build) -> Callable[..., dict[str, tuple[int, ...]]]:
    """Texts of requests that a new runner gives."""

    def run(asked: list[Request], known=None, **switches) -> dict[str, tuple[int, ...]]:
        runner = build(known, **switches)
        config = RunnerConfig(**(SIZES | switches))
        limits = {name: getattr(config, name) for name in SIZES}
        ahead = config.token_handoff != "sync"
        return serve(
            runner,
            SchedulerConfig(**limits, num_speculative_tokens=config.num_drafts, async_scheduling=ahead),
            asked,
        )

    return run


_KNOWN: dict[str, np.ndarray] = {}


@pytest.fixture
def known(run_all) -> dict[str, np.ndarray]:
    """Greedy continuations of `requests_of(6)`, by a run without drafts."""
    if not _KNOWN:
        for req_id, tokens in run_all(requests_of(6)).items():
            _KNOWN[req_id] = np.asarray(tokens, dtype=np.int32)
    return _KNOWN
