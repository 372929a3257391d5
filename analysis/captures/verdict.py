"""What bound a captured program, and what each remedy could give at most: what a capture's page says first.

The devices' windows, added up, fall into parts that close:

    window = kernels (and whole graphs) + copies and memsets alone + idle
    idle   = late (the next operation had not been asked for) + asked (it had) + unknown (its call is not known)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from ..stats import Number, mean, median
from ..tables import ints
from .figures import CaptureFigures

Part = Literal["kernels", "copies", "late", "asked", "unknown"]
LEAST_SHARE = 0.01
"""Of the devices' windows: below that a remedy is not worth a line."""
MOST_PLACES = 3


@dataclass(frozen=True, slots=True)
class Remedy:
    """`at_most_ns` is a bound: of device time (`of_device`, then a part of the windows), or of host time.

    code    late, eager, waits, copies, pageable or item
    count   kernels, copies or calls that it is about; None where it is about time only
    places  (name, ns) where most of it lay, longest first
    """

    code: str
    at_most_ns: int
    of_device: bool
    count: int | None
    places: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class CaptureVerdict:
    """`parts` [ns] of `window_ns`, None where a device's idle time cannot be said; `bound` is the largest of them.

    step_p50_ns, steps   median period of the marked steps, or median length of their host ranges where none has a next
                         one (`step_is_period` is false then: the device may work longer), and of how many
    step_mean_ns         mean period, None where there is no period. A capture does not tell how many steps were in
                         flight; where they lean on one another (`analysis.pace`), or are of several kinds, no median
                         is what a step takes, and the two lie apart
    remedies             largest first
    """

    window_ns: int
    parts: dict[Part, int] | None
    bound: Part | None
    step_p50_ns: Number | None
    steps: int
    remedies: tuple[Remedy, ...]
    step_is_period: bool = True
    step_mean_ns: Number | None = None


def capture_verdict(figures: CaptureFigures) -> CaptureVerdict:
    """From the figures of the sections below; a capture without device work has steps only."""
    window = sum(own.window_ns for own in figures.devices)
    parts = _parts(figures) if window else None
    step, steps, mean_ns = _step(figures)
    bound = None if parts is None else max(parts.items(), key=lambda item: item[1])[0]
    found = (_late(figures), _eager(figures), _waits(figures), _copies(figures), _pageable(figures), _item(figures))
    remedies = [own for own in found if own is not None and own.at_most_ns >= LEAST_SHARE * window > 0]
    remedies.sort(key=lambda own: -own.at_most_ns)
    return CaptureVerdict(
        window, parts, bound, step, steps, tuple(remedies), not steps or mean_ns is not None, mean_ns
    )


def _parts(figures: CaptureFigures) -> dict[Part, int] | None:
    busy = alone = idle = 0
    for own in figures.devices:
        if own.busy_ns is None or own.idle_ns is None or own.memory_under_kernels_ns is None:
            return None
        busy, idle = busy + own.busy_ns, idle + own.idle_ns
        alone += own.memory_alone_ns or 0
    late, known = sum(own.late_ns or 0 for own in figures.gaps), sum(own.late_known_ns for own in figures.gaps)
    return {"kernels": busy - alone, "copies": alone, "late": late, "asked": known - late, "unknown": idle - known}


def _step(figures: CaptureFigures) -> tuple[Number | None, int, Number | None]:
    """Median, of how many, and the mean where they are periods."""
    if figures.steps.empty:
        return None, 0, None
    steps = figures.steps.drop_duplicates(["pid", "rank", "step"])
    period, has_period = ints(steps, "period_ns")
    if has_period.any():
        return median(period[has_period]), int(has_period.sum()), mean(period[has_period])
    (start, has_start), (end, has_end) = ints(steps, "start_ns"), ints(steps, "end_ns")
    known = has_start & has_end
    return median((end - start)[known]), int(known.sum()), None


def _late(figures: CaptureFigures) -> Remedy | None:
    late, places = 0, Counter[str]()
    for own in figures.gaps:
        late += own.late_ns or 0
        places.update({share.name: share.idle_ns for share in own.host if share.name})
    return Remedy("late", late, True, None, _longest(places)) if late else None


def _eager(figures: CaptureFigures) -> Remedy | None:
    """Idle time in which the launching thread was in a call that launches one kernel: what replaying graphs spares."""
    kernels, places = sum(own.eager_kernels or 0 for own in figures.graphs), Counter[str]()
    for own in figures.gaps:
        places.update({
            share.name: share.idle_ns
            for share in own.host if share.name and share.kind == "launch" and "Graph" not in share.name
        })
    return Remedy("eager", places.total(), True, kernels, _longest(places)) if kernels and places else None


def _waits(figures: CaptureFigures) -> Remedy | None:
    """Idle time in which the launching thread was in a call that waits or copies synchronously."""
    calls, places = {own.call for own in figures.syncs or ()}, Counter[str]()
    for own in figures.gaps:
        places.update({share.name: share.idle_ns for share in own.host if share.name in calls})
    return Remedy("waits", places.total(), True, None, _longest(places)) if places else None


def _copies(figures: CaptureFigures) -> Remedy | None:
    found = [own for own in figures.hidden if own.under_kernels_ns is not None]
    alone = sum(own.union_ns - (own.under_kernels_ns or 0) for own in found)
    return Remedy("copies", alone, True, sum(own.copies for own in found), ()) if alone else None


def _pageable(figures: CaptureFigures) -> Remedy | None:
    own = figures.pageable
    return Remedy("pageable", own.blocked_ns or 0, False, own.copies, ()) if own.copies else None


def _item(figures: CaptureFigures) -> Remedy | None:
    found = [own for own in figures.syncs or () if own.item_like]
    places: Counter[str] = Counter()
    for own in found:
        places[f"{own.call} {f'under {own.range}' if own.range else 'outside ranges'}"] += own.total_ns
    calls = sum(own.item_like or 0 for own in found)
    return Remedy("item", places.total(), False, calls, _longest(places)) if found else None


def _longest(places: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, ns) for name, ns in places.most_common(MOST_PLACES) if ns)
