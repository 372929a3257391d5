"""A runner's memory is free once nobody refers to it: nothing in it refers to itself."""

import gc
import weakref

import pytest
from stepscope.instrumentation.probe import Ledger, NullProbe, Probe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import build_runner

SMALL = {"model": "micro", "max_num_seqs": 2, "max_num_batched_tokens": 16, "max_model_len": 32, "num_blocks": 8}


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("switches", [{}, {"dispatch_rules": "v2", "logits": "all_positions"}])
def test_a_runner_goes_without_the_garbage_collector(timed, switches):
    ledger = Ledger()
    device = make_device("cpu", ledger=ledger)
    probe = Probe(ledger, device.clock, marks=device) if timed else NullProbe()
    gc.collect()
    gc.disable()
    try:
        runner = build_runner(RunnerConfig(**SMALL, **switches), device, probe, ledger)
        parts = [weakref.ref(part) for part in (runner, runner.executor, runner.inputs, runner.sampler, runner.outputs)]
        del runner
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()
