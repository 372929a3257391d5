"""Dose response: what the period gains when a buffer's copies take 2 and 4 times as long, and the slope of it.

    slope 1   every further nanosecond of the copy is paid in full: the copy is exposed
    slope 0   the copy hides, and a longer one would still hide: at these doses
    between   it hides up to some length; the doses one by one say where that ends

By replay of one recording.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .replay import changed, replays
from .stats import Number, median
from .tables import TableSource
from .what_if import period_change

DOSES = (2.0, 4.0)
"""Factors on the recorded copies; 1 is the recording itself."""


@dataclass(frozen=True, slots=True)
class Dose:
    """Copies `factor` times as long: what that adds to the median copy, and to the steady period."""

    factor: float
    added_ns: Number
    period_added_ns: Number


@dataclass(frozen=True, slots=True)
class DoseResponse:
    """`slope` is the period's share of what was added, by least squares through the recording; None with `reason`."""

    buffer: str
    doses: tuple[Dose, ...]
    slope: float | None
    reason: str | None = None


def dose_response(recording: TableSource, buffer: str = "block_table") -> DoseResponse:
    """The replay's dose response of the first process that can be replayed, by the medians of its copies."""
    first = replays(recording).first
    if first is None:
        return DoseResponse(buffer, (), None, "no device operation can be replayed")
    process, line = first
    mine = np.array([name == buffer for name in line.ops.buffer], dtype=np.bool_)
    mine &= process.is_counted(line.ops.step)
    copy_ns = median((line.ops.end_ns - line.ops.start_ns)[mine])
    if not copy_ns:
        return DoseResponse(buffer, (), None, f"no copy of {buffer} in a counted step can be replayed")
    doses = []
    for factor in DOSES:
        shorter, reason = period_change(process, line, changed(line, {buffer: factor}, {}))
        if shorter is None:
            return DoseResponse(buffer, (), None, reason)
        doses.append(Dose(factor, copy_ns * (factor - 1), -shorter))
    added = np.array([float(dose.added_ns) for dose in doses])
    gained = np.array([float(dose.period_added_ns) for dose in doses])
    return DoseResponse(buffer, tuple(doses), float(added @ gained / (added @ added)))
