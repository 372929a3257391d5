"""What a list of sizes will take of the device's memory and of the time before the first step, by what captures of
other sizes took in the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..tables import LongArray, Table, columns_of

NOT_CAPTURED = "no capture was measured in this recording: graphs off, or a modelled device"


@dataclass(frozen=True, slots=True)
class GraphFigures:
    """Sums over a list of sizes; None with `reason`."""

    memory_bytes: int | None
    capture_ns: int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CaptureCosts:
    """Measured captures of each mode, ascending in size: a size takes what the next larger captured one took.

    A size's figure is the sum over the modes. One that ends below the others has no graphs above its largest size and
    takes nothing there: full graphs of decodes have as many rows as a batch at most.
    """

    memory_bytes: dict[str, dict[int, int]]
    capture_ns: dict[str, dict[int, int]]

    def of(self, sizes: Sequence[int]) -> GraphFigures:
        """Memory and capture time of a list."""
        wanted = np.asarray(sizes, dtype=np.int64)
        memory, why = _summed(self.memory_bytes, wanted)
        capture, why_no_time = _summed(self.capture_ns, wanted)
        return GraphFigures(
            None if memory is None else int(memory.sum()), None if capture is None else int(capture.sum()),
            why or why_no_time,
        )  # fmt: skip

    def memory_of(self, sizes: LongArray) -> tuple[LongArray | None, str | None]:
        """Bytes of each size's graphs, or why they are not known."""
        return _summed(self.memory_bytes, sizes)


def capture_costs(calibration: Table) -> CaptureCosts:
    """Rows `graph_memory` and `graph_capture` with the key `<mode>/<size>`."""
    return CaptureCosts(_by_mode(calibration, "graph_memory"), _by_mode(calibration, "graph_capture"))


def _by_mode(calibration: Table, name: str) -> dict[str, dict[int, int]]:
    rows = columns_of(calibration)
    rows = rows[rows.matches("name", name)]
    value, valid = rows.floats("value")
    found: dict[str, dict[int, int]] = {}
    for key, taken, ok in zip(rows.texts("key"), value, valid, strict=True):
        mode, _, size = (key or "").rpartition("/")
        if ok and size.isdecimal():
            found.setdefault(mode, {})[int(size)] = round(float(taken))
    return found


def _summed(by_mode: dict[str, dict[int, int]], sizes: LongArray) -> tuple[LongArray | None, str | None]:
    if not by_mode:
        return None, NOT_CAPTURED
    largest = max(max(taken) for taken in by_mode.values())
    if (sizes > largest).any():
        return None, f"the largest graph that was measured has {largest} tokens"
    total = np.zeros(len(sizes), dtype=np.int64)
    for taken in by_mode.values():
        known = np.array(sorted(taken), dtype=np.int64)
        values = np.array([*(taken[size] for size in known.tolist()), 0], dtype=np.int64)
        total += values[np.searchsorted(known, sizes, side="left")]
    return total, None
