"""What sets of device buffers are worth with two steps in flight, on the sim device with declared host times.

Costs of data/round.json in us: a graph takes G = 110, the copy C = 51; a move within the device is made to take M = 10.
The host needs less than G a step, so the device never waits for it.
"""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.devices import make_device
from stepscope.runner.devices.base import GraphKey, Work
from stepscope.runner.devices.calibration import load_calibration
from stepscope.runner.devices.sim_clock import DeclaredHost
from stepscope.runner.inputs.copy_ordering import make_copy_ordering

ROUND = load_calibration(str(Path(__file__).parent / "data" / "round.json"))
SIZE = 501_000  # bytes that take C
C, G, M = 51_000, 110_000, 10_000
KEY = GraphKey("full", 64, 64)


def run(stream, device_buffers, steps=12, rate=2 * SIZE / (M * 1e-9)):
    """Start of each forward in ns, with two steps in flight."""
    ledger = Ledger()
    calibration = msgspec.structs.replace(ROUND, device_copy_bytes_per_s=rate)
    device = make_device(
        "sim", ledger=ledger, calibration=calibration, cost_model="round", host=DeclaredHost({}, start_ns=2**60)
    )
    device.capture(KEY, lambda: torch.zeros(1))
    ordering = make_copy_ordering(device, stream, device_buffers)
    factory = BufferFactory(device, ledger, road=ordering.road)
    buffer = factory.buffer("table", SIZE, torch.uint8, stream=ordering.stream)
    events = []
    for _ in range(steps):
        ordering.before_copies()
        buffer.acquire()
        copy = buffer.publish(SIZE)
        ordering.before_readers()
        device.replay(KEY, Work("forward", 64, 64), consumes=(copy,))
        ordering.after_readers()
        events.append(device.record("compute"))
        if len(events) == 2:
            device.host_wait(events.pop(0), "tokens")
    return [row[6] for row in ledger.rows["spans"] if row[1] == "gpu:compute" and row[3] == "graph"]


def period(starts):
    steady = [later - earlier for earlier, later in pairwise(starts[4:])]
    assert len(set(steady)) == 1
    return steady[0]


@pytest.mark.parametrize(
    ("switches", "exposed"),
    [
        (("compute", "single_guarded"), C),
        (("dedicated", "single_guarded"), C),
        (("dedicated", "double"), 0),
        (("dedicated", "staged_d2d"), M),
    ],
)
def test_what_of_the_copy_reaches_the_period(switches, exposed):
    found = period(run(*switches)) - G
    # behind a wait for another stream an operation's latency shows: 3 us of the copy, 6 us of the graph
    assert exposed <= found <= exposed + (9_000 if switches[1] == "single_guarded" else 0)


def test_a_calibration_without_the_rate_of_moves_cannot_land():
    with pytest.raises(UsageError, match="device_copy_bytes_per_s is absent, and this runner moves data within the"):
        run("dedicated", "staged_d2d", rate=None)
