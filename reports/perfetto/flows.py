"""Arrows: from each launch to what it caused, and for each step from its delta over launch and kernel to the token."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .slices import HOST, Slice
from .tracks import Track

LAUNCH, STEP = "launch", "step"
Placed = tuple[Track, Slice]


@dataclass(frozen=True, slots=True)
class Point:
    """A moment inside a slice, which an arrow is bound to there."""

    track: Track
    one: Slice
    at_ns: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """Points that one arrow passes, in order of time."""

    cat: str
    name: str
    points: tuple[Point, ...]


def arrows(placed: Sequence[Placed]) -> Iterator[Arrow]:
    """All arrows of one process. One that would lead back in time (clocks that disagree) is left out.

    Of the kernels behind one launch (a graph's replay) the first is pointed to: the others follow it.
    """
    causes, effects = _by_tie(placed)
    for tie, cause in causes.items():
        if tie in effects:
            yield from _arrow(LAUNCH, "launch", [_begin(cause), _begin(min(effects[tie], key=_start))])
    for own, members in _by_step(placed).items():
        yield from _arrow(STEP, f"step {own}", _chain(members, causes))


def _arrow(cat: str, name: str, points: Sequence[Point]) -> Iterator[Arrow]:
    times = [point.at_ns for point in points]
    if len(points) > 1 and times == sorted(times):
        yield Arrow(cat, name, tuple(points))


def _begin(own: Placed) -> Point:
    return Point(*own, own[1].start_ns)


def _chain(members: Sequence[Placed], causes: dict[int, Placed]) -> list[Point]:
    """delta → launch → kernel → token, as far as it was recorded.

    The kernel is the device work that ran longest in the step, with its launch; the token is what brought it back: the
    last copy to the host, and the end of the host's wait for it.
    """
    found = [_begin(own) for own in members if own[1].cat == "step"][:1]
    work = [own for own in members if own[1].cat in ("kernel", "graph") and own[1].tie in causes]
    if work:
        tie = max(work, key=lambda own: own[1].length_ns)[1].tie
        found += [_begin(causes[tie])] if tie is not None else []
        found.append(_begin(min((own for own in work if own[1].tie == tie), key=_start)))
    return found + _token(members)


def _token(members: Sequence[Placed]) -> list[Point]:
    copies = [own for own in members if own[1].cat == "copy" and own[1].name.startswith("d2h")]
    last = max(copies, key=_start, default=None)
    back_ns = last[1].end_ns if last else 0
    waits = [own for own in members if own[1].cat in ("wait", "sync") and own[1].group == HOST]
    ended = min((own for own in waits if own[1].end_ns >= back_ns), key=lambda own: own[1].end_ns, default=None)
    found = [_begin(last)] if last else []
    if ended and ended[1].length_ns and (last or ended[1].cat == "wait"):
        found.append(Point(*ended, ended[1].end_ns - 1))
    return found


def _by_tie(placed: Sequence[Placed]) -> tuple[dict[int, Placed], dict[int, list[Placed]]]:
    """Host slices, and device slices, by correlation. A number that two calls share ties nothing."""
    causes: dict[int, Placed] = {}
    repeated: set[int] = set()
    effects: dict[int, list[Placed]] = defaultdict(list)
    for own in placed:
        tie = own[1].tie
        if tie is None:
            continue
        if own[1].group != HOST:
            effects[tie].append(own)
        elif causes.setdefault(tie, own) is not own:
            repeated.add(tie)
    return {tie: own for tie, own in causes.items() if tie not in repeated}, effects


def _by_step(placed: Sequence[Placed]) -> dict[int, list[Placed]]:
    found: dict[int, list[Placed]] = defaultdict(list)
    for own in placed:
        if own[1].own is not None:
            found[own[1].own].append(own)
    return found


def _start(own: Placed) -> int:
    return own[1].start_ns
