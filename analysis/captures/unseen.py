"""Work of a device that ran and stands in no row: then nobody can say that the device was idle, or a copy exposed."""

from __future__ import annotations

import numpy as np

from .gathering import KIND_GRAPH, KIND_KERNEL, KIND_MEMSET
from .lacks import Lacks, asking_calls
from .launches import Launches
from .rows import CaptureRows, nowhere


def unseen_work(rows: CaptureRows, launches: Launches, lacks: Lacks) -> str | None:
    """Why the rows are not all that the devices executed; None where nothing speaks for that, or there are none.

    Without kernels only the calls could tell whether any were launched: calls that launched none are a program that
    copies. Graph launches none of which left a row were traced as whole graphs, and the table of those is not there; a
    capture that ties no work to any call cannot show that.
    """
    return lost_work(rows, launches, lacks) or _nowhere(rows)


def lost_work(rows: CaptureRows, launches: Launches, lacks: Lacks) -> str | None:
    """The same of work that left no row, whichever the device."""
    if not len(rows.work):
        return None
    ran = np.isin(rows.device.kind, (KIND_KERNEL, KIND_GRAPH)).any()
    if not ran and lacks.calls is not None:
        told = "no calls" if "calls" in rows.absent else "no names of calls"
        return f"the capture has no kernels, and {told} that would tell whether any ran"
    return lacks.kernels or lacks.replays or _lost_transfers(rows, launches)


def _lost_transfers(rows: CaptureRows, launches: Launches) -> str | None:
    """Calls that copied, and no copy; calls that set memory, and no memset."""
    if not len(rows.copies) and (calls := len(asking_calls(rows, launches, "copies"))):
        return f"{calls} calls copied and no copy is in the capture"
    if not (rows.device.kind == KIND_MEMSET).any() and (calls := len(asking_calls(rows, launches, "memsets"))):
        return f"{calls} calls set memory and no memset is in the capture"
    return None


def _nowhere(rows: CaptureRows) -> str | None:
    """Work that says not on which of the devices it ran; of a machine with one, that need not be said."""
    lost = np.isin(rows.work.device, nowhere(rows))
    if not lost.any() or (lost.all() and rows.meta.environment.get("gpu_count") == 1):
        return None
    return f"{int(lost.sum())} kernels, copies and memsets do not tell their device"
