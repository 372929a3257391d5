"""Where a device's time lies on the host's clock: a corridor of constraints, and the lines that fit through it.

Every event that the host recorded fired after the host began to record it (lower bound of the offset); every event
whose wait has returned had fired by then (upper bound). offset = host time - device time drifts by parts per million.
Within a window of seconds the drift is constant, so the true offset is some line through the corridor; what all such
lines leave open at a time is the error there. Nothing is averaged: the truth lies inside for certain, or a clock is at
fault. A corridor that no line fits through gives nothing.

Method: the bounds are Cristian's ("Probabilistic clock synchronization", 1989), one-sided as in Duda et al. (1987).
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

WINDOW_NS = 2_000_000_000
BINS = 64
"""Parts of a window of which each keeps its tightest constraint of either side; the others say next to nothing."""
INTERVALS = 4
"""Parts of a window between knots."""
MAX_DRIFT = 1e-3
"""No crystal is worse than 100 ppm, and a disciplined host clock is slewed by 500 ppm at most."""

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """One window: offset and half-width of what the lines leave open, at a few times of it (knots, device ns).

    Between two knots both are interpolated. The half-width then is no less than the true one, because the upper edge
    of what is open is convex in time and the lower one concave.
    """

    knots: tuple[int, ...]
    offsets_ns: tuple[float, ...]
    errs_ns: tuple[float, ...]
    base_ns: int
    """What the offsets count from, so that floats hold small differences only."""

    def to_host(self, device_ns: int) -> tuple[int, int]:
        """(host time, err), both in integer ns."""
        right = min(max(bisect_right(self.knots, device_ns), 1), len(self.knots) - 1)
        left = right - 1
        length = self.knots[right] - self.knots[left]
        share = (device_ns - self.knots[left]) / length
        offset = self.offsets_ns[left] + (self.offsets_ns[right] - self.offsets_ns[left]) * share
        err = self.errs_ns[left] + (self.errs_ns[right] - self.errs_ns[left]) * share
        return device_ns + self.base_ns + round(offset), math.ceil(err)


class _Bounds:
    """Constraints of one side: device times and offsets, as they came."""

    def __init__(self) -> None:
        self.times = array("q")
        self.offsets = array("q")

    def __len__(self) -> int:
        return len(self.times)

    def columns(self, since: int = 0) -> tuple[Times, Times]:
        """Times and offsets from entry `since` on, copied: nobody can append to an array that is being looked at."""
        return (
            np.array(self.times[since:], dtype=np.int64), np.array(self.offsets[since:], dtype=np.int64),
        )


class ClockCorridor:
    """Collects constraints and fits one segment a window. The grid of windows starts at the first constraint."""

    def __init__(self, window_ns: int = WINDOW_NS) -> None:
        self.window_ns = window_ns
        self._origin: int | None = None
        self._lower = _Bounds()
        self._upper = _Bounds()
        self._marks: dict[int, tuple[int, int]] = {}  # window -> entries of either side when its first one came
        self._segments: dict[int, Segment | None] = {}
        self._noted = range(0)  # device times of the window that was looked up last

    def not_before(self, device_ns: int, host_ns: int) -> None:
        """What happened at `device_ns` did not happen before `host_ns`: its launch began then."""
        if self._origin is None:
            self._origin = device_ns
        if device_ns not in self._noted:
            self._note(device_ns)
        self._lower.times.append(device_ns)
        self._lower.offsets.append(host_ns - device_ns)

    def not_after(self, device_ns: int, host_ns: int) -> None:
        """What happened at `device_ns` had happened by `host_ns`: a wait for it returned then."""
        if device_ns not in self._noted:
            self._note(device_ns)
        self._upper.times.append(device_ns)
        self._upper.offsets.append(host_ns - device_ns)

    def _note(self, device_ns: int) -> None:
        number = self.window(device_ns)
        if self._origin is not None:
            start = self._origin + number * self.window_ns
            self._noted = range(start, start + self.window_ns)
        if number not in self._marks:
            self._marks[number] = (len(self._lower), len(self._upper))

    @property
    def constraints(self) -> tuple[int, int]:
        """How many lower and upper bounds were collected."""
        return len(self._lower), len(self._upper)

    def window(self, device_ns: int) -> int:
        """Number of the window that a device time falls into."""
        return 0 if self._origin is None else max((device_ns - self._origin) // self.window_ns, 0)

    def fit(self, since: int = 0) -> None:
        """Fit (again) every window from number `since` on; older segments stay as they were handed out.

        A window is fitted through its own constraints and those of the windows beside it, half a window deep.
        """
        numbers = sorted(number for number in self._marks if number >= since)
        if not numbers or self._origin is None:
            return
        before = max((number for number in self._marks if number < since - 1), default=0)
        from_lower, from_upper = self._marks.get(before, (0, 0))
        lower, upper = self._lower.columns(from_lower), self._upper.columns(from_upper)
        for number in numbers:
            start = self._origin + number * self.window_ns
            self._segments[number] = _segment(lower, upper, start, self.window_ns)

    def to_host(self, device_ns: int) -> tuple[int, int] | None:
        """(host_ns, err_ns); None where no window was fitted or its corridor is empty."""
        segment = self._segments.get(self.window(device_ns))
        return None if segment is None else segment.to_host(device_ns)

    def violations(self) -> int:
        """Constraints that their fitted segment breaks by more than its error; 0 when clocks and fit are sound."""
        broken = 0
        for bounds, sign in ((self._lower, 1), (self._upper, -1)):
            for device_ns, bound in zip(*bounds.columns(), strict=True):
                known = self.to_host(int(device_ns))
                if known is not None:
                    broken += sign * (int(bound) - (known[0] - int(device_ns))) > known[1]
        return broken

    def violations_without_drift(self) -> tuple[int, int]:
        """(constraints broken, worst excess in ns) if the best constant offset stood for the whole run."""
        if not len(self._lower) or not len(self._upper):
            return 0, 0
        lower, upper = self._lower.columns()[1], self._upper.columns()[1]
        floor, ceiling = int(lower.max()), int(upper.min())
        middle = (floor + ceiling) // 2
        return int((lower > middle).sum() + (upper < middle).sum()), max(0, (floor - ceiling + 1) // 2)


def _segment(lower: tuple[Times, Times], upper: tuple[Times, Times], start: int, length: int) -> Segment | None:
    """The band of all lines that keep every constraint, as its middle and its half-width at either end."""
    floor, ceiling = _tightest(lower, start, length, 1), _tightest(upper, start, length, -1)
    if not floor or not ceiling:
        return None
    base = floor[0][1]  # floats hold differences only
    low, high = _hull(floor, base, 1), _hull(ceiling, base, -1)

    def minus_least(slope: float, at: float = 0.0) -> float:
        return -max(offset - slope * (time - at) for time, offset in low)

    def most(slope: float, at: float = 0.0) -> float:
        return min(offset - slope * (time - at) for time, offset in high)

    slopes = _feasible(lambda slope: most(slope) + minus_least(slope))
    if slopes is None:
        return None
    offsets, errs = [], []
    knots = _knots(lower[0], start, length)
    for knot in knots:
        top = _best(partial(most, at=float(knot)), *slopes)
        bottom = -_best(partial(minus_least, at=float(knot)), *slopes)
        offsets.append((top + bottom) / 2)
        errs.append((top - bottom) / 2)
    return Segment(tuple(start + knot for knot in knots), tuple(offsets), tuple(errs), base)


def _knots(times: Times, start: int, length: int) -> list[int]:
    """Times in the window, from its first to its last constraint: beyond them the lines spread, and nobody asks."""
    inside = times[(times >= start) & (times < start + length)] - start
    first, last = (int(inside.min()), int(inside.max())) if inside.size else (0, length)
    last = max(last, first + INTERVALS)
    return [first + (last - first) * part // INTERVALS for part in range(INTERVALS + 1)]


def _tightest(bounds: tuple[Times, Times], start: int, length: int, side: int) -> list[tuple[int, int]]:
    """(time in the window, offset) of the tightest constraint of each bin of the window and half a window around it."""
    times, offsets = bounds
    inside = (times >= start - length // 2) & (times < start + length + length // 2)
    times, offsets = times[inside] - start, offsets[inside]
    bins = times * BINS // length
    order = np.lexsort((-side * offsets, bins))
    first = order[np.unique(bins[order], return_index=True)[1]]
    return list(zip(times[first].tolist(), offsets[first].tolist(), strict=True))


def _hull(bounds: list[tuple[int, int]], base: int, side: int) -> list[tuple[float, float]]:
    """The points that a line can touch from above (side 1, lower bounds) or below (-1): the chain around them all."""
    chain: list[tuple[int, int]] = []
    for time, offset in bounds:
        point = (time, (offset - base) * side)
        while len(chain) > 1 and _is_below(chain[-2], chain[-1], point):
            chain.pop()
        chain.append(point)
    return [(float(time), float(height * side)) for time, height in chain]


def _is_below(left: tuple[int, int], middle: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether `middle` lies on or below the line from `left` to `right`; exact, in Python integers."""
    return (middle[1] - left[1]) * (right[0] - left[0]) <= (right[1] - left[1]) * (middle[0] - left[0])


Concave = Callable[[float], float]


def _feasible(gap: Concave) -> tuple[float, float] | None:
    """Slopes of the lines that fit through: where `gap` is not negative. None when there are none."""
    slope = _argmax(gap, -MAX_DRIFT, MAX_DRIFT)
    if gap(slope) < 0:
        return None
    return _last_fit(gap, slope, -MAX_DRIFT), _last_fit(gap, slope, MAX_DRIFT)


def _argmax(concave: Concave, low: float, high: float) -> float:
    """Where a concave function is largest: golden sections, down to what a float can tell."""
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = concave(left), concave(right)
    for _ in range(60):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = concave(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = concave(left)
    return (low + high) / 2


def _last_fit(gap: Concave, inside: float, outside: float) -> float:
    """The last slope on the way from `inside` to `outside` at which a line fits."""
    if gap(outside) >= 0:
        return outside
    for _ in range(40):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if gap(middle) >= 0 else (inside, middle)
    return inside


def _best(concave: Concave, low: float, high: float) -> float:
    """The largest value of a concave function over [low, high]."""
    return max(concave(low), concave(_argmax(concave, low, high)), concave(high))
