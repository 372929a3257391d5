"""Answers of the laboratory runner to a few random requests: does a switch change them?"""

from __future__ import annotations

import random
from contextlib import closing
from typing import Any

from ...instrumentation.probe import Ledger, NullProbe
from ...runner.config import RunnerConfig
from ...runner.devices import make_device
from ...runner.model_runner import ModelRunner, build_runner
from ...workloads.requests import Request
from ...workloads.scheduler import Scheduler, SchedulerConfig
from ...workloads.step import SamplingParams

Answers = dict[str, tuple[int, ...]]
SHARED = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size", "num_blocks")
SIZES: dict[str, Any] = {
    "max_num_seqs": 5, "max_num_batched_tokens": 48, "max_model_len": 96, "block_size": 4, "num_blocks": 160,
}
VOCABULARY = 256


def random_requests(rng: random.Random, count: int, sampled: float = 0.5) -> list[Request]:
    """More requests than rows, of random lengths, the share `sampled` of them drawn with a seed of their own."""
    return [
        Request(
            f"q{at}", rng.randint(1, 50), rng.randint(1, 24), VOCABULARY, 0, rng.getrandbits(30),
            SamplingParams(temperature=1.5, seed=rng.getrandbits(30)) if rng.random() < sampled else SamplingParams(),
        )
        for at in range(count)
    ]  # fmt: skip


def answers(requests: list[Request], device: str = "cpu", **switches: Any) -> tuple[Answers, ModelRunner]:
    """Tokens of each request, and the runner that made them (its checks say what was looked at).

    Raises BrokenInvariant where `check` is on and one does not hold.
    """
    config = RunnerConfig(**{**SIZES, "check": "off", **switches})
    scheduler = Scheduler(SchedulerConfig(**{name: getattr(config, name) for name in SHARED}))
    for request in requests:
        scheduler.add_request(request)
    ledger = Ledger()
    found: dict[str, list[int]] = {request.req_id: [] for request in requests}
    with closing(make_device("sim", ledger=ledger) if device == "sim" else _plain(device, ledger)) as opened:
        runner = build_runner(config, opened, NullProbe(), ledger)
        while scheduler.has_unfinished() or scheduler.has_pending_finished():
            for req_id, tokens in scheduler.update(runner.execute(scheduler.schedule())).items():
                found[req_id] += tokens
    return {req_id: tuple(tokens) for req_id, tokens in found.items()}, runner


def _plain(device: str, ledger: Ledger) -> Any:
    return make_device("cuda", ledger=ledger) if device == "cuda" else make_device("cpu", ledger=ledger)
