"""How long work waited between the call that asked for it and its start on the device.

Of the work of one call only the first row counts: the kernels of a graph replay wait for one another, not for a queue.
A start before its call is a fault of the clocks: counted and shown, never part of a mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import LongArray, grouped, members
from ..stats import median, quantile
from .gathering import KIND_COPY
from .launches import Launches
from .rows import CaptureRows

KINDS = ("kernel", "memset", "graph")


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Delays (start on the device - start of the call) of one kind of work on one device. `what` is kernel, memset,
    graph or a direction of copies; figures are of delays that are not negative, null with n = 0."""

    device: str
    rank: int | None
    what: str
    n: int
    mean_ns: float | None
    p50_ns: float | None
    p90_ns: int | None
    max_ns: int | None
    skewed: int
    skew_worst_ns: int | None


def queue_figures(rows: CaptureRows, launches: Launches) -> tuple[QueueFigures, ...]:
    """A row a device and kind of work."""
    work, call = launches.work, launches.call
    what = _what(rows, launches)
    linked = np.flatnonzero(call >= 0)
    linked = linked[np.argsort(work.start[linked], kind="stable")]
    first = linked[grouped(call[linked])[1]]
    delay = work.start[first] - rows.host.start[call[first]]
    if not len(first):
        return ()
    group, _ = grouped(work.device[first], what[first])
    found = []
    for own in members(group):
        row = own[0]
        key = rows.devices[work.device[first[row]]]
        name = _name(rows, int(what[first[row]]))
        found.append(_figures(key.device, key.rank, name, delay[own]))
    return tuple(sorted(found, key=lambda own: (own.rank or 0, own.device, own.what)))


def _what(rows: CaptureRows, launches: Launches) -> LongArray:
    """Places in KINDS, behind them directions of copies."""
    kind = launches.work.kind.copy()
    copies = kind == KIND_COPY
    kind[copies] = rows.copies.direction + len(KINDS)
    return kind


def _name(rows: CaptureRows, place: int) -> str:
    return KINDS[place] if place < len(KINDS) else rows.directions[place - len(KINDS)]


def _figures(device: str, rank: int | None, what: str, delay: LongArray) -> QueueFigures:
    good, bad = delay[delay >= 0], delay[delay < 0]
    return QueueFigures(
        device, rank, what, len(good), float(good.mean()) if len(good) else None, median(good), quantile(good, 90),
        int(good.max()) if len(good) else None, len(bad), int(bad.min()) if len(bad) else None,
    )
