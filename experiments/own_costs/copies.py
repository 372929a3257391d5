"""How long the block table's copy takes on this GPU once it runs: measured in the run itself, after its last step.

A pair of events around a copy that finds its stream idle reads long by what the host needs to hand the copy over, so
such a copy has bounds and no length. Copies of the same size one behind the other, behind other work, have one.
"""

from __future__ import annotations

import torch

from ...analysis.summary import OWN_COPY
from ..calibrate.bench import Bench

COPIES = 20
"""In a row, between two events: what the events cost is spread over them."""
HOST_US = 20
"""Ample for handing one over."""


def queued_copy_ns(bench: Bench, size_bytes: int) -> int:
    """Device time of one pinned copy of that size to the GPU, among others on the current stream."""
    source = bench.pinned(size_bytes)
    target = torch.empty_like(source, device=bench.device)
    return round(
        bench.device_ns(lambda: target.copy_(source, non_blocking=True), inner=COPIES, launch_us=HOST_US)
    )


def copy_entry(buffer: str, size_bytes: int, copy_ns: int) -> tuple[tuple[str, str], float]:
    """((name, key), value) of its row in the table `calibration`, as `analysis.summary` looks for it."""
    return (OWN_COPY, f"{buffer}/{size_bytes}"), float(copy_ns)
