"""What a replay's kernels take by the profiler's trace, attention's apart from all others."""

from contextlib import closing

import pytest
from stepscope.errors import MeasurementError
from stepscope.experiments.calibrate.trace import TraceEvent
from stepscope.experiments.own_costs.kernels import ATTENTION, REPLAYS, TURNS, KernelTimes, kernel_times, replay_kernels
from stepscope.experiments.own_costs.shapes import ReplayShape
from stepscope.instrumentation.probe import Ledger, NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import build_runner

CONFIG = RunnerConfig(
    max_num_seqs=8, max_num_batched_tokens=32, max_model_len=64, num_blocks=40, block_size=4, model="tiny",
    graph_mode="full", capture_sizes=(8,),
)  # fmt: skip


def trace(*kernels):
    """Kernels one behind the other, 100 ns apart, handed out in no order."""
    events, now = [], 0
    for name, took in kernels:
        events.append(TraceEvent(name=name, category="kernel", start_ns=now, end_ns=now + took))
        now += took + 100
    return events[1::2] + events[::2]


def test_attention_is_told_by_its_kernels_and_a_slow_replay_moves_nothing():
    one = [("gemm", 300), ("split_decode", 1_000), ("reduce_splits", 50), ("gemm", 200)]
    slow = [(name, 3 * took) for name, took in one]
    call = TraceEvent(name="cudaGraphLaunch", category="cuda_runtime", start_ns=0, end_ns=9)
    events = [*trace(*slow, *one * 4), call]
    assert kernel_times(events, 5) == KernelTimes(1_050, 500)


@pytest.mark.parametrize("kernels", [0, 7])
def test_a_trace_that_lost_records_is_refused(kernels):
    with pytest.raises(MeasurementError, match=rf"{kernels} kernels in a trace of 2 equal replays.*: repeat it"):
        kernel_times(trace(*[("gemm", 1)] * kernels), 2)


def test_the_names_are_those_of_kernels_that_there_are():
    pytest.importorskip("triton")
    from stepscope.runner.kernels import paged_attention, split_decode

    there = {*vars(paged_attention), *vars(split_decode)}
    assert set(ATTENTION) <= there


TOOK = {8: (900, 400), 5: (1_000, 250)}


class Tracing:
    """A bench whose trace shows two kernels for each graph that was replayed, of the times of its size."""

    def __init__(self, ledger):
        self.ledger, self.seen = ledger, []

    def trace(self, work):
        self.ledger.take()
        work()
        sizes = [int(row[2].removeprefix("graph.")) for row in self.ledger.take()["spans"] if row[3] == "graph"]
        self.seen.append(sizes)
        return trace(*[one for size in sizes for one in zip(("split_decode", "gemm"), TOOK[size], strict=True)])


def test_both_sizes_are_replayed_in_turns_over_the_same_rows():
    ledger = Ledger()
    with closing(make_device("sim", ledger=ledger)) as device:
        runner = build_runner(CONFIG, device, NullProbe(), ledger)
        bench = Tracing(ledger)
        padded, actual = replay_kernels(runner, CONFIG, bench, ReplayShape("full", 8, 5, 5, 0, 40, 1, 1.0))
    assert (padded, actual) == (KernelTimes(900, 400), KernelTimes(1_000, 250))
    assert bench.seen == [[8], *([(8, 5)[which]] * REPLAYS for which in TURNS)]
