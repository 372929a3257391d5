"""What checks on a real driver share: CUPTI through torch.profiler, and kernels that keep a stream busy."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from ...runner.devices.base import StreamName, Work
from ...runner.devices.cuda import CudaDevice
from ..calibrate.trace import TraceEvent, events_of

CYCLES_PER_US = 1_700
"""torch.cuda._sleep on an H200, about."""
KIB = 1024
WHY = "its truth is a GPU's own"
NEEDS = ("cuda",)


def traced(work: Callable[[], None]) -> list[TraceEvent]:
    """What the profiler saw of `work`, in the order of the device."""
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        found = events_of(json.loads(path.read_text())["traceEvents"])
    return sorted(found, key=lambda event: event.start_ns)


def sleep(device: CudaDevice, us: float, stream: StreamName = "compute") -> None:
    """Keep a stream busy."""
    device.launch("sleep", lambda: torch.cuda._sleep(round(us * CYCLES_PER_US)), Work("sleep"), stream=stream)


def nothing(*_: object, **__: object) -> None:
    """A verb that does nothing."""
