"""What a machine with an NVIDIA GPU can measure: each thing is tried, so that a limit shows here and not in a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from .finding import Finding

if TYPE_CHECKING:  # for annotations: torch is imported where something is tried
    import torch

    from ...runner.devices.base import Device

CLOCK_SAMPLES = 200
CLOCK_ERR_WANTED_NS = 12_000
NSYS_ELSEWHERE = (
    "/opt/nvidia/nsight-systems/*/bin/nsys", "/opt/nvidia/nsight-systems*/*/nsys", "/usr/local/cuda*/bin/nsys",
    "/usr/local/bin/nsys",
)  # fmt: skip
NSYS_IN_COMPUTE = "/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys"


def pinned() -> Finding:
    """Page-locked memory, asked of the driver under this container's limit."""
    from ...runner.devices.cuda_memory import make_host_memory

    memory = make_host_memory()
    if memory.pinned:
        return Finding("pinned memory", "ok", "the driver locks pages here (tried)")
    mend = "copies run from pageable memory and say so; raise the memory lock or container limit to measure pinned ones"
    return Finding("pinned memory", "no", memory.reason, mend)


def events() -> Finding:
    """Device events, and how closely their times are tied to the host's clock."""
    import torch

    from ...errors import StepscopeError
    from ...instrumentation.probe.ledger import Ledger
    from ...runner.devices import make_device

    needs = "device times stay null; check the driver with nvidia-smi and torch.version.cuda against it"
    try:
        device = make_device("cuda", ledger=Ledger())
    except (RuntimeError, StepscopeError) as error:
        return Finding("device events", "no", _first_line(error), needs)
    try:
        errors = list(_clock_errors(device, torch.zeros(64, device=device.tensor_device)))
    finally:
        device.close()
    if not errors:
        return Finding("device events", "no", "the device's clock could not be tied to the host's", needs)
    worst = max(errors)
    found = f"torch.cuda.Event; device times lie within {worst / 1e3:.1f} us of the host's clock"
    if worst > CLOCK_ERR_WANTED_NS:
        wanted = f"{CLOCK_ERR_WANTED_NS / 1e3:.0f} us"
        mend = f"above {wanted}: end other load on this machine, and look at longer copies only"
        return Finding("device events", "limited", found, mend)
    return Finding("device events", "ok", found)


def _clock_errors(device: Device, tensor: torch.Tensor) -> Iterator[int]:
    """Errors in ns of marks between small kernels, each of which the host waits for."""
    from ...runner.devices.base import Work

    marks = []
    for _ in range(CLOCK_SAMPLES):
        device.launch("doctor", lambda: tensor.add_(1.0), Work("check"))
        marks.append(device.mark())
        device.host_wait(device.record("compute"), "doctor")
    device.synchronize()
    for mark in marks:
        known = None if mark is None else device.resolve_mark(mark)
        if known is not None:
            yield known[1]


def cupti() -> Finding:
    """Whether the profiler sees kernels here: a second one, a container or a driver setting may forbid it."""
    import torch

    mend = "busy times stay null (events go on); end other profilers, allow performance counters to users"
    activities = [torch.profiler.ProfilerActivity.CUDA]
    try:
        with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
            torch.zeros(64, device="cuda").add_(1.0)
            torch.cuda.synchronize()
        seen = sum(str(event.device_type).endswith("CUDA") for event in profiler.events() or ())
    except RuntimeError as error:
        return Finding("CUPTI (profiler)", "no", _first_line(error), mend)
    if not seen:
        return Finding("CUPTI (profiler)", "no", "the profiler ran and saw no kernel", mend)
    return Finding("CUPTI (profiler)", "ok", "torch.profiler sees kernels and copies")


def telemetry() -> Finding:
    """NVML, and which of its figures this driver does not give."""
    from ...instrumentation.telemetry import TelemetrySampler

    sampler = TelemetrySampler()
    try:
        if sampler.unavailable:
            mend = "clocks, power and temperature stay null; they need nvidia-ml-py and the driver's libnvidia-ml"
            return Finding("telemetry (NVML)", "no", sampler.unavailable, mend)
        driver = sampler.environment().get("gpu_driver")
        sampler.sample(0)
        missing = [column for _, column, _ in sampler.diagnostics()]
        reasons = "; ".join(dict.fromkeys(reason for _, _, reason in sampler.diagnostics()))
    finally:
        sampler.close()
    if missing:
        mend = f"these columns of telemetry stay null here ({reasons}); a physical GPU with a full driver gives them"
        return Finding("telemetry (NVML)", "limited", f"driver {driver} without {', '.join(missing)}", mend)
    return Finding("telemetry (NVML)", "ok", f"driver {driver}: clocks, power, temperature, memory")


def nsys(elsewhere: tuple[str, ...] = NSYS_ELSEWHERE, in_compute: str = NSYS_IN_COMPUTE) -> Finding:
    """Nsight Systems on PATH, beside it, or the part of it that Nsight Compute carries."""
    name = "Nsight Systems"
    path = shutil.which("nsys")
    if path is not None:
        return Finding(name, "ok", path)
    installed = next((found for pattern in elsewhere for found in sorted(glob(pattern), reverse=True)), None)
    if installed is not None:
        mend = f"put it on PATH: export PATH={Path(installed).parent}:$PATH"
        return Finding(name, "limited", f"{installed} is not on PATH", mend)
    part = next(iter(sorted(glob(in_compute), reverse=True)), None)
    if part is not None:
        mend = (
            "it records .qdstrm files but lacks the importer that makes reports of them; install Nsight Systems here,"
            " or open the .qdstrm on a machine that has it"
        )
        return Finding(name, "limited", f"only the recorder in Nsight Compute's folder: {part}", mend)
    mend = "busy time of measured devices stays null; install NVIDIA Nsight Systems and put nsys on PATH"
    return Finding(name, "no", "nsys is not on PATH", mend)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
