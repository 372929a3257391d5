"""Where a device's time lies on the host's clock: a corridor of constraints, and the line through its middle.

Every event that the host recorded fired after the host began to record it (lower bound of the offset); every event
whose wait has returned had fired by then (upper bound). offset = host time - device time drifts by parts per million,
so a line is fitted in windows of a few seconds. Its error at a time is half of what the corridor leaves open there.
A corridor that is empty means that one of the clocks is at fault: then nothing is known, and nothing is returned.

Method: the bounds are Cristian's ("Probabilistic clock synchronization", 1989), one-sided as in Duda et al. (1987).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WINDOW_NS = 2_000_000_000

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """One window: offset(t) = offset_ns + drift * (t - start_ns), and the half-width that its constraints leave."""

    start_ns: int
    offset_ns: int
    drift: float
    half_width_ns: int

    def to_host(self, device_ns: int) -> tuple[int, int]:
        """(host time, err), both in integer ns: only the small drift term goes through a float."""
        return device_ns + self.offset_ns + round(self.drift * (device_ns - self.start_ns)), self.half_width_ns


class ClockCorridor:
    """Collects constraints and fits one segment a window. The grid of windows starts at the first constraint."""

    def __init__(self, window_ns: int = WINDOW_NS) -> None:
        self.window_ns = window_ns
        self._origin: int | None = None
        self._lower: list[tuple[int, int]] = []
        self._upper: list[tuple[int, int]] = []
        self._segments: dict[int, Segment | None] = {}

    def not_before(self, device_ns: int, host_ns: int) -> None:
        """What happened at `device_ns` did not happen before `host_ns`: its launch began then."""
        if self._origin is None:
            self._origin = device_ns
        self._lower.append((device_ns, host_ns - device_ns))

    def not_after(self, device_ns: int, host_ns: int) -> None:
        """What happened at `device_ns` had happened by `host_ns`: a wait for it returned then."""
        self._upper.append((device_ns, host_ns - device_ns))

    @property
    def constraints(self) -> tuple[int, int]:
        """How many lower and upper bounds were collected."""
        return len(self._lower), len(self._upper)

    def window(self, device_ns: int) -> int:
        """Number of the window that a device time falls into."""
        return 0 if self._origin is None else max((device_ns - self._origin) // self.window_ns, 0)

    def fit(self, since: int = 0) -> None:
        """Fit (again) every window from number `since` on; older segments stay as they were handed out."""
        if not self._lower or not self._upper or self._origin is None:
            return
        lower, upper = _columns(self._lower), _columns(self._upper)
        drift = _drift(lower, upper, self.window_ns)
        last = self.window(max(self._lower[-1][0], self._upper[-1][0]))
        for number in range(since, last + 1):
            start = self._origin + number * self.window_ns
            self._segments[number] = _segment(
                _within(lower, start, self.window_ns), _within(upper, start, self.window_ns), start, drift
            )

    def to_host(self, device_ns: int) -> tuple[int, int] | None:
        """(host_ns, err_ns); None where no window was fitted or its corridor is empty."""
        segment = self._segments.get(self.window(device_ns))
        return None if segment is None else segment.to_host(device_ns)

    def violations(self) -> int:
        """Constraints that their fitted segment breaks by more than its error; 0 when clocks and fit are sound."""
        broken = 0
        for bounds, sign in ((self._lower, 1), (self._upper, -1)):
            for device_ns, bound in bounds:
                known = self.to_host(device_ns)
                if known is not None:
                    broken += sign * (bound - (known[0] - device_ns)) > known[1]
        return broken


def _columns(bounds: list[tuple[int, int]]) -> tuple[Times, Times]:
    table = np.array(bounds, dtype=np.int64)
    return table[:, 0], table[:, 1]


def _within(bounds: tuple[Times, Times], start: int, width: int) -> tuple[Times, Times]:
    times, offsets = bounds
    inside = (times >= start) & (times < start + width)
    return times[inside], offsets[inside]


def _drift(lower: tuple[Times, Times], upper: tuple[Times, Times], window_ns: int) -> float:
    """Slope of the corridor's middle over all windows, 0.0 when there is only one: a window alone shows no drift."""
    begin = int(lower[0].min())
    middles: list[tuple[float, float]] = []
    for start in range(begin, int(lower[0].max()) + 1, max(window_ns // 4, 1)):
        low, high = _within(lower, start, window_ns // 4), _within(upper, start, window_ns // 4)
        if low[0].size and high[0].size:
            middles.append((start - begin, (int(low[1].max()) + int(high[1].min())) / 2 - int(lower[1][0])))
    if len(middles) < 4:
        return 0.0
    times, offsets = np.array(middles).T
    return float(np.polyfit(times, offsets, 1)[0])


def _segment(lower: tuple[Times, Times], upper: tuple[Times, Times], start: int, drift: float) -> Segment | None:
    """The middle of the corridor once the drift is taken out."""
    if not lower[0].size or not upper[0].size:
        return None
    floor = int((lower[1] - np.rint(drift * (lower[0] - start)).astype(np.int64)).max())
    ceiling = int((upper[1] - np.rint(drift * (upper[0] - start)).astype(np.int64)).min())
    if floor > ceiling:
        return None
    return Segment(start, (floor + ceiling) // 2, drift, (ceiling - floor + 1) // 2)
