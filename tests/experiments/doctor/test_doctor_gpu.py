"""What the doctor finds on a GPU machine, with each limit put in its way by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.experiments.doctor import examine as doctor
from stepscope.experiments.doctor import gpu as doctor_gpu
from stepscope.instrumentation import telemetry
from stepscope.instrumentation.probe import Ledger
from stepscope.runner import devices
from stepscope.runner.devices import cuda_memory, make_device


def nsight(folder, part: str):
    path = folder / part
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    return path


@pytest.fixture
def bare_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def test_nsys_off_the_path_is_found_and_the_path_told(tmp_path, bare_path) -> None:
    older, newer = (nsight(tmp_path, f"nsight-systems/{year}/bin/nsys") for year in ("2023.1", "2024.5"))
    found = doctor_gpu.nsys((str(tmp_path / "nsight-systems/*/bin/nsys"),), "")
    assert (found.verdict, found.found) == ("limited", f"{newer} is not on PATH")
    assert f"export PATH={newer.parent}:$PATH" in found.mend
    assert str(older) not in found.found


def test_nsight_computes_recorder_is_no_nsight_systems(tmp_path, bare_path) -> None:
    part = nsight(tmp_path, "nsight-compute/2025.3/host/target-linux-x64/nsys")
    found = doctor_gpu.nsys((), str(tmp_path / "nsight-compute/*/host/target-linux-x64/nsys"))
    assert found.verdict == "limited"
    assert str(part) in found.found
    assert ".qdstrm" in found.mend


def test_no_nsys_at_all(bare_path) -> None:
    assert doctor_gpu.nsys((), "/nowhere/*").verdict == "no"


def test_refused_page_locks_are_told_with_the_drivers_words(monkeypatch) -> None:
    def refuse(shape, dtype):
        raise RuntimeError("CUDA error: out of memory\nmore")

    monkeypatch.setattr(cuda_memory, "page_locked", refuse)
    found = doctor_gpu.pinned()
    assert (found.verdict, found.found) == ("no", "page-locked memory is not available: CUDA error: out of memory")
    monkeypatch.setattr(cuda_memory, "page_locked", lambda shape, dtype: torch.zeros(shape, dtype=dtype))
    assert doctor_gpu.pinned().verdict == "ok"


def clocked(monkeypatch, err_ns: int | None):
    """The cpu device with marks that are known within `err_ns`."""
    device = make_device("cpu", ledger=Ledger())
    device.mark = lambda: 1
    device.resolve_mark = lambda mark: None if err_ns is None else (5, err_ns)
    monkeypatch.setattr(devices, "make_device", lambda name, ledger: device)


@pytest.mark.parametrize(("err_ns", "verdict", "words"), [
    (4_200, "ok", "within 4.2 us"), (40_000, "limited", "within 40.0 us"), (None, "no", "could not be tied"),
])
def test_events_are_as_good_as_their_clock(monkeypatch, err_ns, verdict, words) -> None:
    clocked(monkeypatch, err_ns)
    found = doctor_gpu.events()
    assert found.verdict == verdict
    assert words in found.found
    assert bool(found.mend) == (verdict != "ok")


def test_a_device_that_does_not_start_is_a_finding_and_no_crash(monkeypatch) -> None:
    def broken(name, ledger):
        raise UsageError("device 'cuda' needs an NVIDIA GPU")

    monkeypatch.setattr(devices, "make_device", broken)
    found = doctor_gpu.events()
    assert (found.verdict, found.found) == ("no", "device 'cuda' needs an NVIDIA GPU")


def test_columns_that_the_driver_does_not_give_are_named(monkeypatch) -> None:
    class Sampler:
        unavailable = None

        def environment(self):
            return {"gpu_driver": "580.1"}

        def sample(self, time_ns): ...

        def diagnostics(self):
            return (("telemetry", "power_mw", "Not Supported"),)

        def close(self): ...

    monkeypatch.setattr(telemetry, "TelemetrySampler", Sampler)
    found = doctor_gpu.telemetry()
    assert (found.verdict, found.found) == ("limited", "driver 580.1 without power_mw")
    assert "Not Supported" in found.mend


def profiled(monkeypatch, events):
    class Profile:
        def __init__(self, activities, acc_events): ...

        def __enter__(self):
            return SimpleNamespace(events=lambda: events)

        def __exit__(self, *error): ...

    monkeypatch.setattr(torch.profiler, "profile", Profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *shape, device=None: zeros(*shape))


def test_a_profiler_that_sees_no_kernel_is_no_profiler(monkeypatch) -> None:
    profiled(monkeypatch, [SimpleNamespace(device_type=torch.autograd.DeviceType.CPU)])
    assert doctor_gpu.cupti().verdict == "no"
    profiled(monkeypatch, [SimpleNamespace(device_type=torch.autograd.DeviceType.CUDA)])
    assert doctor_gpu.cupti().verdict == "ok"


def test_a_gpu_that_nobody_calibrated_is_sent_to_calibrate(monkeypatch) -> None:
    monkeypatch.setattr(doctor, "_gpu_name", lambda: "Another GPU")
    found = doctor._calibration()
    assert found.verdict == "limited"
    assert "perf doctor --calibrate" in found.mend
    monkeypatch.setattr(doctor, "_gpu_name", lambda: "NVIDIA H200")
    assert doctor._calibration().verdict == "ok"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_this_gpus_events_pinned_memory_and_profiler(tmp_path) -> None:
    verdicts = {finding.name: finding.verdict for finding in doctor.examine(tmp_path)}
    assert verdicts["pinned memory"] == "ok"
    assert verdicts["device events"] in ("ok", "limited")
    assert verdicts["CUPTI (profiler)"] == "ok"
