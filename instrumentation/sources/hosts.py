"""Whether a capture's devices can be those of real hosts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...errors import UsageError
from .arrays import grouped
from .trace import Trace

MOST_DEVICES = 1024
"""Of one process. Hosts have 16 GPUs, or some hundred slices of them; where ranks are merged each has a process."""


def check_devices(trace: Trace, path: Path, column: str) -> None:
    """Raise UsageError for a process that works on more devices than any host has: numbers in `column` are damaged
    then, and thousands of devices with a kernel each would be told as idle."""
    process = np.concatenate((trace.device.process, trace.copies.process))
    _, first = grouped(process, np.concatenate((trace.device.device, trace.copies.device)))
    counts = np.bincount(process[first]) if len(first) else np.zeros(1, dtype=np.int64)
    most = int(counts.argmax())
    if counts[most] > MOST_DEVICES:
        raise UsageError(
            f"{path}: process {trace.processes[most].pid} works on {counts[most]} devices and no host has so many: "
            f"{column} is damaged; make the file again from the capture"
        )
