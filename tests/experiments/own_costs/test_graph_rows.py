"""Figures of captures in a recording: rows, notes, and the device that is closed whatever happens."""

from datetime import date

import pytest
from stepscope.analysis.graph_memory import graph_memory
from stepscope.errors import MeasurementError
from stepscope.experiments import session
from stepscope.experiments.measure import measure
from stepscope.experiments.own_costs.captures import capture_rows, graph_notes
from stepscope.experiments.plan import make_plan
from stepscope.runner.devices.base import CaptureFigures, GraphKey, NoGraphMemory
from stepscope.runner.devices.cpu import CpuDevice

MIB = 1 << 20
GPU = {"gpu_name": "NVIDIA H200", "gpu_driver": "580.159.04"}
CAPTURES = [
    CaptureFigures(GraphKey("full", 8, 8), 1000 * MIB, 700 * MIB, 9_000),
    CaptureFigures(GraphKey("full", 4, 4), 700 * MIB, 680 * MIB, 8_000),
    CaptureFigures(GraphKey("full", 2, 2), 680 * MIB, 660 * MIB, 7_000),
]


def test_rows_of_three_captures():
    rows = capture_rows(CAPTURES, GPU, date(2026, 11, 30))
    assert [row[:4] for row in rows] == [
        ("graph_memory_estimate", "all", 340.0 * MIB, "bytes"),  # 300 + 2 * 20
        ("graph_free_before", "all", 1000.0 * MIB, "bytes"),
        ("graph_free_after", "all", 660.0 * MIB, "bytes"),
        ("graph_memory", "full/8", 300.0 * MIB, "bytes"), ("graph_capture", "full/8", 9000.0, "ns"),
        ("graph_memory", "full/4", 20.0 * MIB, "bytes"), ("graph_capture", "full/4", 8000.0, "ns"),
        ("graph_memory", "full/2", 20.0 * MIB, "bytes"), ("graph_capture", "full/2", 7000.0, "ns"),
    ]  # fmt: skip
    assert {row[4:] for row in rows} == {
        ("NVIDIA H200", "580.159.04", "2026-11-30", "this run, before its first step", None)
    }
    assert capture_rows([], GPU) == []


def test_notes_tell_of_sizes_without_a_graph_and_of_a_bad_estimate():
    assert graph_notes(CAPTURES, {}) == []
    grown = [*CAPTURES, CaptureFigures(GraphKey("full", 1, 1), 660 * MIB, 60 * MIB, 1)]
    (late,) = graph_notes(grown, {GraphKey("full", 16, 16): "CUDA out of memory"})[1:]
    (missing,) = graph_notes([], {GraphKey("full", 16, 16): "CUDA out of memory"})
    assert (missing.table, missing.reason) == ("dispatch", "graph full/16 was not captured: CUDA out of memory")
    assert "graph memory: estimate and measurement differ by more than a factor of two" in late.reason


class Watched(CpuDevice):
    """Measures its captures, has no memory for the largest, and remembers that it was closed."""

    closed = 0

    def capture(self, key, fn):
        if key.tokens > 4:
            raise NoGraphMemory("CUDA out of memory")
        super().capture(key, fn)
        self.captures.append(CaptureFigures(key, 100 * MIB, 90 * MIB, 5_000))

    def close(self):
        self.closed += 1


@pytest.fixture
def watched(monkeypatch):
    devices = []
    monkeypatch.setattr(session, "_device", lambda spec, ledger: devices.append(Watched(ledger)) or devices[-1])
    return devices


def point(**runner):
    tree = {
        "workload": {"regime": "steady", "settings": {"num_reqs": 4, "prompt_len": 6, "output_len": 3}},
        "device": "cpu", "measure": {"warmup_steps": 0},
        "runner": {"graph_mode": "full", "capture_sizes": [4, 8], **runner},
    }  # fmt: skip
    (made,) = make_plan([("test", tree)], {}).points
    return made.spec


def test_a_run_records_its_captures_and_closes_its_device(watched, tmp_path):
    recording = measure(point(), tmp_path / "recording").recording
    memory = graph_memory(recording.table("calibration"))
    assert (memory.num_sizes, memory.measured_bytes, memory.flags) == (1, 10 * MIB, ())
    assert recording.meta.reason("dispatch", "size") == "graph full/8 was not captured: CUDA out of memory"
    assert set(recording.table("dispatch")["reason"]) == {"hit", "above_max"}
    assert [device.closed for device in watched] == [1]


def test_a_run_that_breaks_closes_its_device_too(watched, tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise MeasurementError("planted")

    monkeypatch.setattr(session.StepLoop, "run", broken)
    with pytest.raises(MeasurementError, match="planted"):
        measure(point(), tmp_path / "recording")
    assert [device.closed for device in watched] == [1]
