"""The cpu device, and the factory of devices."""

from pathlib import Path

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.recording.schema import COPIES
from stepscope.runner.devices import DEVICES, make_device
from stepscope.runner.devices.base import GraphKey, Work
from stepscope.runner.devices.cpu import CpuDevice

ROUND = str(Path(__file__).parent / "data" / "round.json")


class Ticks:
    """A clock that moves 10 ns each time somebody looks."""

    clock_id = "ticks"

    def __init__(self):
        self.time = 0

    def now_ns(self):
        self.time += 10
        return self.time

    def leave(self, name):
        return self.now_ns()


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def device(ledger):
    return CpuDevice(ledger, Ticks())


def test_copies_happen_at_once_and_the_device_side_is_null(device, ledger):
    source, target = device.host_tensor((3,), torch.int32, pinned=True), device.empty((3,), torch.int32)
    source[:] = 5
    op = device.copy_to_device(target, source, buffer="ids")
    assert target.tolist() == [5, 5, 5]
    names = ["step", *(column.name for column in COPIES)]
    (row,) = [dict(zip(names, row, strict=True)) for row in ledger.rows["copies"]]
    assert row == {
        "step": None, "direction": "h2d", "size_bytes": 12, "changed_bytes": None, "src_kind": "pageable",
        "dst_kind": "pageable", "buffer": "ids", "lane": None, "enqueue_start_ns": 10, "enqueue_end_ns": 20,
        "start_ns": None, "end_ns": None, "err_ns": None, "queued": None, "is_async": False, "correlation": op,
    }  # fmt: skip
    assert device.copy_to_host(target[:0], source[:0], buffer="ids") == 0


def test_there_is_no_device_time_and_nothing_is_in_flight(device, ledger):
    assert device.launch("sample", lambda: 3, Work("sample", rows=1), consumes=(9, 0)) == 3
    assert device.mark() is None
    assert device.resolve_mark(0) is None
    assert device.host_has_seen(1)
    assert device.is_done(1)
    event = device.record("compute")
    device.host_wait(event, "tokens")
    device.stream_wait("output", event)
    device.launch("back", lambda: None, Work("fill"), stream="output")
    device.synchronize()
    assert [row[1:] for row in ledger.rows["spans"]] == [
        ("host:main", "sample", "launch", None, 10, 20, 0, 1), ("host:main", "back", "launch", None, 40, 50, 0, 2),
    ]  # fmt: skip
    assert [row[1:] for row in ledger.rows["edges"]] == [("consumer", 1, 9), ("event", 2, 1)]
    assert [row[2:4] for row in ledger.rows["waits"]] == [("tokens", 1)]
    assert not device.pinned
    assert not device.is_pinned(device.host_tensor((1,), torch.int32, pinned=True))


def test_a_replay_runs_the_function_into_the_captured_tensor(device):
    state, key = {"value": 1}, GraphKey("full", 8, 8)
    device.capture(key, lambda: torch.full((2,), state["value"]))
    address = device.replay(key, Work("forward", tokens=8)).data_ptr()
    state["value"] = 2
    output = device.replay(key, Work("forward", tokens=8))
    assert (output.data_ptr(), output.tolist()) == (address, [2, 2])
    with pytest.raises(UsageError, match="no graph was captured"):
        device.replay(GraphKey("full", 9, 9), Work("forward"))


def test_idling_does_not_go_back(device):
    device.idle_until(0)
    with device.paused():
        assert device.clock.now_ns() == 20


def test_the_factory_knows_its_devices(ledger):
    assert make_device("cpu", ledger=ledger).name == "cpu"
    assert make_device("sim", ledger=ledger, calibration=ROUND, cost_model="round").modelled
    assert DEVICES == ("cpu", "sim", "cuda")
    for name, model, message in (
        ("tpu", None, "unknown device 'tpu'; known: cpu, sim, cuda"),
        ("cuda", None, "device 'cuda' needs an NVIDIA GPU"),
        ("sim", "llama-9t", "cost model 'llama-9t' is not calibrated .* \\(calibrated: round\\)"),
    ):
        with pytest.raises(UsageError, match=message):
            make_device(name, ledger=ledger, calibration=ROUND, cost_model=model)
