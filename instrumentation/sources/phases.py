"""Which phase of its step a call belongs to: told by ranges that a map knows, else inferred from the launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .arrays import LongArray, blocks, empty, filled, rows_by
from .nesting import segments
from .phase_maps import PHASES, PhaseMap
from .trace import RANGE, Trace


@dataclass(frozen=True, slots=True, eq=False)
class PhaseSegments:
    """Disjoint stretches of a thread's time that belong to a phase, sorted by process, thread and start.

    phase   place in PHASES; origin: place in `origins`
    """

    process: LongArray = field(default_factory=empty)
    thread: LongArray = field(default_factory=empty)
    start: LongArray = field(default_factory=empty)
    end: LongArray = field(default_factory=empty)
    phase: LongArray = field(default_factory=empty)
    origin: LongArray = field(default_factory=empty)
    origins: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.start)

    def at(self, process: LongArray, thread: LongArray, time: LongArray) -> LongArray:
        """Place in PHASES of each moment of a thread, -1 where no phase is open there."""
        found = filled(len(time), -1)
        wanted = rows_by(process)
        for first, stop in blocks(self.process):
            own = wanted.get(int(self.process[first]), empty())
            for begin, finish in blocks(self.thread[first:stop]):
                lo, hi = first + begin, first + finish
                chosen = own[thread[own] == self.thread[lo]]
                place = lo + np.searchsorted(self.start[lo:hi], time[chosen], side="right") - 1
                inside = (place >= lo) & (time[chosen] < self.end[np.maximum(place, lo)])
                found[chosen[inside]] = self.phase[place[inside]]
        return found

    def joined(self, other: PhaseSegments) -> PhaseSegments:
        """Both, of different threads or times."""
        if not len(other):
            return self
        shift = len(self.origins)
        columns = {
            name: np.concatenate((getattr(self, name), getattr(other, name)))
            for name in ("process", "thread", "start", "end", "phase")
        }
        origin = np.concatenate((self.origin, other.origin + shift))
        order = np.lexsort((columns["start"], columns["thread"], columns["process"]))
        return PhaseSegments(
            **{name: values[order] for name, values in columns.items()}, origin=origin[order],
            origins=(*self.origins, *other.origins),
        )


def phases_of_ranges(trace: Trace, maps: Sequence[PhaseMap]) -> PhaseSegments:
    """Stretches under ranges that a map knows; where several are open the innermost counts."""
    host = trace.host
    is_range = np.flatnonzero(host.kind == RANGE)
    phase, origin = _known(trace, is_range, maps)
    rows = is_range[phase >= 0]
    phase, origin = phase[phase >= 0], origin[phase >= 0]
    order = np.lexsort((host.thread[rows], host.process[rows]))
    rows, phase, origin = rows[order], phase[order], origin[order]
    parts: list[tuple[LongArray, ...]] = []
    for first, stop in blocks(host.process[rows]):
        for begin, finish in blocks(host.thread[rows][first:stop]):
            own = slice(first + begin, first + finish)
            start, end, row = segments(host.start[rows][own], host.end[rows][own])
            kept = rows[own][row]
            parts.append((host.process[kept], host.thread[kept], start, end, phase[own][row], origin[own][row]))
    if not parts:
        return PhaseSegments()
    process, thread, start, end, phases, origins = (np.concatenate(column) for column in zip(*parts, strict=True))
    names = tuple(f"ranges:{phase_map.name}" for phase_map in maps)
    return PhaseSegments(process, thread, start, end, phases, origins, names)


def _known(trace: Trace, rows: LongArray, maps: Sequence[PhaseMap]) -> tuple[LongArray, LongArray]:
    """(place in PHASES, place in `maps`) of each range; -1 for one that no map knows. The first map decides."""
    name, domain = trace.host.name[rows], trace.host.domain[rows]
    phase, origin = filled(len(rows), -1), filled(len(rows), -1)
    for code in np.unique(domain).tolist():
        own = domain == code
        for name_code in np.unique(name[own]).tolist():
            told = _told(trace.names[name_code], trace.names[code] if code >= 0 else None, maps)
            if told is not None:
                chosen = own & (name == name_code)
                phase[chosen], origin[chosen] = told
    return phase, origin


def _told(name: str, domain: str | None, maps: Sequence[PhaseMap]) -> tuple[int, int] | None:
    for place, phase_map in enumerate(maps):
        phase = phase_map.phase(name, domain)
        if phase is not None:
            return PHASES.index(phase), place
    return None
