"""Rows of `steps` tell how many drafts each step verified and how many it accepted, whenever its tokens come back."""

from __future__ import annotations

from contextlib import closing

import pytest
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.probe import STEP_FIGURES, Probe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import build_runner
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig

SIZES = {"max_num_seqs": 4, "max_num_batched_tokens": 64, "max_model_len": 64, "block_size": 4, "num_blocks": 120}


def rows_and_truth(known, asked, **switches) -> tuple[list[tuple], list[tuple]]:
    """(requests with drafts, drafts, accepted) by step: as recorded, and as deltas and results say."""
    ledger, truth, waiting = Ledger(), {}, []
    config = RunnerConfig(**SIZES, **switches)
    ahead = config.token_handoff != "sync"
    scheduler = Scheduler(SchedulerConfig(**SIZES, num_speculative_tokens=config.num_drafts, async_scheduling=ahead))
    for request in asked:
        scheduler.add_request(request)

    def collect() -> None:
        result = waiting.pop(0).result()
        truth[result.step] += (sum(len(tokens) - 1 for tokens in result.sampled.values()),)
        scheduler.update(result)

    with closing(make_device("cpu", ledger=ledger)) as device:
        probe = Probe(ledger, device.clock)
        runner = build_runner(config, device, probe, ledger, continuations=known)
        while scheduler.has_unfinished() or scheduler.has_pending_finished():
            delta = scheduler.schedule()
            drafts = delta.scheduled_spec_decode_tokens.values()
            truth[delta.step] = (len(drafts), sum(map(len, drafts)))
            waiting.append(runner.submit(delta))
            if len(waiting) > ahead:
                collect()
        while waiting:
            collect()
        probe.finish()
    steps = [dict(zip(STEP_FIGURES, row[3:-2], strict=True)) for row in ledger.rows["steps"]]
    found = [(row["drafted_reqs"], row["drafted_tokens"], row["accepted_tokens"]) for row in steps]
    return found, [truth[step] for step in sorted(truth)]


@pytest.mark.parametrize("switches", [
    {}, {"token_handoff": "async_auto", "correction": "device"}, {"speculative": 0},
])  # fmt: skip
def test_rows_say_what_was_verified_and_accepted(known, requests, switches) -> None:
    options = {"speculative": 3, "acceptance": "synthetic:0.5"} | switches
    if not options["speculative"]:
        options = {}
    found, truth = rows_and_truth(known, requests(4), **options)
    assert found == truth
    drafted, accepted = (sum(row[at] for row in found) for at in (1, 2))
    assert (0 < accepted < drafted) == bool(options)
