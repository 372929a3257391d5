"""Work of a device that ran and stands in no row: then nobody can say that the device was idle, or a copy exposed."""

from __future__ import annotations

import numpy as np

from .gathering import KIND_GRAPH, KIND_KERNEL
from .launches import Launches
from .rows import CaptureRows


def unseen_work(rows: CaptureRows, launches: Launches) -> str | None:
    """Why the rows are not all that the devices executed; None where nothing speaks for that, or there are none.

    Without kernels only the calls could tell whether any were launched: calls that launched none are a program that
    copies. Graph launches none of which left a row were traced as whole graphs, and the table of those is not there; a
    capture that ties no work to any call cannot show that.
    """
    if not len(rows.work):
        return None
    ran = np.isin(rows.device.kind, (KIND_KERNEL, KIND_GRAPH)).any()
    if not ran and "calls" in rows.absent:
        return "the capture has no kernels, and no calls that would tell whether any ran"
    graphs = np.flatnonzero(launches.is_graph_launch & (rows.host.correlation > 0))
    tied = (launches.call >= 0).any() and not (rows.device.kind == KIND_GRAPH).any()
    if len(graphs) and tied and not np.isin(launches.call, graphs).any():
        return f"none of {len(graphs)} graph launches left a replay or a kernel in the capture"
    return _lost_copies(rows, launches) or _nowhere(rows)


def _lost_copies(rows: CaptureRows, launches: Launches) -> str | None:
    """Calls that copied, and no copy. HIP copies some memory by kernels."""
    if len(rows.copies):
        return None
    calls = np.setdiff1d(np.flatnonzero(launches.is_copy_call), launches.call)
    names = {rows.names[name] for name in np.unique(rows.host.name[calls]).tolist()}
    if not names or any(name.startswith("hip") for name in names):
        return None
    return f"{len(calls)} calls copied and no copy is in the capture"


def _nowhere(rows: CaptureRows) -> str | None:
    """Work that says not on which of the devices it ran."""
    unknown = [place for place, device in enumerate(rows.devices) if device.device == "unknown"]
    lost = np.isin(rows.work.device, unknown)
    if not unknown or lost.all() or not lost.any():
        return None
    return f"{int(lost.sum())} kernels, copies and memsets do not tell their device"
