"""What this machine can measure, found by looking and not by assuming; each gap comes with its mend."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from . import gpu
from .finding import Finding

FREE_BYTES_WANTED = 1 << 30


def examine(out: Path) -> list[Finding]:
    """All findings, in the order in which a reader needs them. `out` is where results would go."""
    looks: tuple[Callable[[], Finding], ...] = (
        _python, _torch, _device, _calibration, _pinned, _events, _cupti, gpu.telemetry, gpu.nsys, _nvtx,
        _probe, _triton, _cores, _clock,
    )  # fmt: skip
    return [*(look() for look in looks), _disk(out)]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Finding:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("python", "ok", found)


def _torch() -> Finding:
    import torch

    cuda = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    return Finding("torch", "ok", f"{torch.__version__}, {cuda}")


def _gpu_name() -> str | None:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def _device() -> Finding:
    from ..resolve import default_device

    gpu = _gpu_name()
    if default_device() == "cuda":
        return Finding("device", "ok", f"cuda ({gpu}): host and device are measured")
    if gpu:
        mend = "this version measures on the devices cpu and sim; use --device cpu for measured host phases"
        return Finding("device", "limited", f"{gpu} is here, but this version has no cuda device", mend)
    mend = "for measured device times run on a machine with an NVIDIA GPU; --device cpu measures the host phases alone"
    found = "no usable NVIDIA GPU: sim (host measured, device side modelled) is the default"
    return Finding("device", "limited", found, mend)


def _calibration() -> Finding:
    from ...runner.devices.calibration import bundled_calibrations, calibration_of, load_calibration

    names = bundled_calibrations()
    if not names:
        return Finding("calibration", "no", "no bundled calibration, so sim has no costs", "reinstall stepscope")
    known = load_calibration(names[0])
    found = f"{known.gpu}, driver {known.driver}, {known.date}; shapes: {', '.join(known.models)}"
    gpu = _gpu_name()
    if gpu is not None and calibration_of(gpu) is None:
        mend = "copies are timed without correction here; measure this GPU: perf doctor --calibrate (2 minutes)"
        return Finding("calibration", "limited", f"{found}; none of this {gpu}", mend)
    return Finding("calibration", "ok", found)


def _pinned() -> Finding:
    if _gpu_name() is None:
        mend = "nothing to do for sim, which charges pinned costs by the calibration; real pinning needs a GPU"
        return Finding("pinned memory", "no", "the CUDA driver pins memory, and there is none", mend)
    return gpu.pinned()


def _events() -> Finding:
    if _gpu_name() is None:
        return Finding("device events", "no", "no device to record them on; spans in sim are modelled", "needs a GPU")
    return gpu.events()


def _cupti() -> Finding:
    if _gpu_name() is None:
        return Finding("CUPTI (profiler)", "no", "it records an NVIDIA GPU's kernels; there is none", "needs a GPU")
    return gpu.cupti()


def _nvtx() -> Finding:
    version = _version("nvtx")
    if version is None:
        return Finding("NVTX ranges", "no", "the package nvtx is not installed", "pip install nvtx")
    return Finding("NVTX ranges", "ok", f"nvtx {version}, domain stepscope; written when a tool listens")


def _probe() -> Finding:
    from ...instrumentation.probe import native

    module, reason = native.look()
    if module is None:
        wanted = "C takes CPython on Linux, a compiler (cc), Python's headers (Python.h) and a cache of the user's own"
        mend = f"unset {native.SWITCH}" if os.environ.get(native.SWITCH) == "0" else wanted
        return Finding("probe", "limited", f"in Python, which costs a step about twice as much: {reason}", mend)
    if native.native_events() is None:
        found = f"in C ({module.__file__}), events in Python: {native.EVENTS_SWITCH} is 0"
        return Finding("probe", "limited", found, f"unset {native.EVENTS_SWITCH}")
    return Finding("probe", "ok", f"in C ({module.__file__})")


def _triton() -> Finding:
    version = _version("triton")
    if version is None:
        mend = "slot_mapping=torch and slot_mapping=host work without it; wheels exist for Linux on x86-64"
        return Finding("triton", "no", "not installed", mend)
    if _gpu_name() is None:
        mend = "nothing to do: sim computes slot mapping with torch and charges the calibrated kernel"
        return Finding("triton", "limited", f"{version}, without a GPU only its interpreter (correct, not timed)", mend)
    return Finding("triton", "ok", version)


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    found = f"{usable} usable cores, load {load:.1f}"
    if load > usable:
        return Finding(
            "cores", "limited", found, "the machine is busy: host times will be longer and noisier than idle"
        )
    return Finding("cores", "ok", found)


def _clock() -> Finding:
    clock = time.get_clock_info("perf_counter")
    begin = time.perf_counter_ns()
    for _ in range(1000):
        time.perf_counter_ns()
    cost_ns = (time.perf_counter_ns() - begin) // 1001
    return Finding("host clock", "ok", f"{clock.implementation}, {cost_ns} ns a reading (Python {sys.version_info[0]})")


def _disk(out: Path) -> Finding:
    existing = next(folder for folder in [out.absolute(), *out.absolute().parents] if folder.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:.1f} GB free for {out}"
    if not os.access(existing, os.W_OK):
        return Finding("disk", "no", f"{existing} takes no writes", "choose another folder with --out")
    if free < FREE_BYTES_WANTED:
        return Finding("disk", "limited", found, "a default sweep wants about 1 GB; free some or choose another --out")
    return Finding("disk", "ok", found)
