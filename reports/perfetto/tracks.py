"""Where slices go: a track shows only what nests, so what crosses an earlier slice of its lane gets another track.

    lane     [0-----10)  [8---12)        two copies of one stream that overlap
    tracks   [0-----10)                  gpu:7
                         [8---12)        gpu:7 (overlapping)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from .slices import HOST, STEP_LANE, Slice

_FIRST_PID = 1


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the viewer, by its numbers."""

    pid: int
    tid: int


@dataclass(slots=True)
class Tracks:
    """All tracks with their names, in the order of showing. `pids` are numbers of ours: two hosts may share one of the
    system's."""

    groups: list[tuple[int, str]] = field(default_factory=list)
    rows: list[tuple[Track, str]] = field(default_factory=list)

    def add_group(self, name: str) -> int:
        """A new group of tracks, which viewers call a process; its number."""
        pid = _FIRST_PID + len(self.groups)
        self.groups.append((pid, name))
        return pid

    def add(self, pid: int, name: str) -> Track:
        """A new track in a group."""
        track = Track(pid, 1 + sum(row.pid == pid for row, _ in self.rows))
        self.rows.append((track, name))
        return track


def place(slices: Sequence[Slice], process: str, tracks: Tracks) -> list[tuple[Track, Slice]]:
    """Every slice with its track, in order of time: outer slices before the ones inside."""
    lanes: dict[str, dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
    for one in sorted(slices, key=lambda own: (own.start_ns, -own.end_ns)):
        lanes[one.group][one.lane].append(one)
    placed: list[tuple[Track, Slice]] = []
    for group in sorted(lanes, key=lambda name: (name != HOST, name)):
        pid = tracks.add_group(process if group == HOST else f"GPU {group} of {process}")
        for lane in sorted(lanes[group], key=lambda name: (name != STEP_LANE, name)):
            placed += _lane(lanes[group][lane], lane, pid, tracks)
    return placed


def _lane(slices: Sequence[Slice], lane: str, pid: int, tracks: Tracks) -> list[tuple[Track, Slice]]:
    """First track on which each slice nests. Each track keeps the ends of the slices that are open on it."""
    found: list[tuple[Track, list[int]]] = []
    placed = []
    for one in slices:
        fitting = next((own for own in found if _fits(one, own[1])), None)
        if fitting is None:
            number = len(found)
            words = lane if not number else f"{lane} (overlapping{f' {number}' if number > 1 else ''})"
            fitting = tracks.add(pid, words), []
            found.append(fitting)
        track, open_ends = fitting
        open_ends.append(one.end_ns)
        placed.append((track, one))
    return placed


def _fits(one: Slice, open_ends: list[int]) -> bool:
    """Whether it lies inside the innermost slice that is still open; closes those that ended."""
    while open_ends and open_ends[-1] <= one.start_ns and not (open_ends[-1] == one.start_ns == one.end_ns):
        open_ends.pop()
    return not open_ends or one.end_ns <= open_ends[-1]
