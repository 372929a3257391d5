"""Graphs that found no memory: the run goes on eagerly, says so in `dispatch`, and keeps the reason."""

import pytest
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.devices.base import NoGraphMemory
from stepscope.runner.devices.cpu import CpuDevice


class SmallDevice(CpuDevice):
    """Has memory for graphs of at most `largest` tokens."""

    def __init__(self, ledger, largest):
        super().__init__(ledger)
        self.largest = largest

    def capture(self, key, fn):
        if key.tokens > self.largest:
            raise NoGraphMemory("CUDA out of memory. Tried to allocate 136.00 MiB")
        super().capture(key, fn)


@pytest.mark.parametrize(
    ("graph_mode", "uncaptured"),
    [("full", ["full/8", "full/4"]), ("full_and_piecewise", ["full/8", "piecewise/8", "full/4", "piecewise/4"])],
)
def test_sizes_without_memory_run_eagerly(tiny_runner, graph_mode, uncaptured):
    # GIVEN a device whose memory holds graphs of 1 and 2 tokens, and a runner that wants 4 and 8 too
    ledger = Ledger()
    device = SmallDevice(ledger, largest=2)
    lab = tiny_runner(device=device, ledger=ledger, graph_mode=graph_mode, capture_sizes=(1, 2, 4, 8))
    # WHEN prompts of three tokens and one are run
    lab.run({"a": 3}, new=[lab.new("a", [1, 2, 3], [1])])
    lab.run({"b": 1}, new=[lab.new("b", [4], [2])])
    # THEN the first had no graph, the second had one
    modes = [row[4:] for row in ledger.rows["dispatch"]]
    assert modes == [(None, "none", "not_captured"), (1, "full" if graph_mode == "full" else "piecewise", "hit")]
    found = lab.runner.executor.uncaptured
    assert [f"{key.mode}/{key.tokens}" for key in found] == uncaptured
    assert set(found.values()) == {"CUDA out of memory. Tried to allocate 136.00 MiB"}


def test_another_failure_of_a_capture_is_not_swallowed(tiny_runner):
    class Broken(CpuDevice):
        def capture(self, key, fn):
            raise RuntimeError("operation not permitted when stream is capturing")

    ledger = Ledger()
    with pytest.raises(RuntimeError, match="not permitted"):
        tiny_runner(device=Broken(ledger), ledger=ledger, graph_mode="full")
