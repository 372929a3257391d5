"""What was measured for a claim: arms, launches and turns, as plain values.

    claim E1, cell {runner.table_width: 8192}, arm first, launch 0: turns 0, 5, 6, ... each with its series
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

PERIOD = "period_ns"
Values = tuple[int | None, ...]
QUICK = ALIKE = 1.15
"""A host is at its best or, by phases, 1.8 times as slow: up to here it was at its best, and up to this ratio two turns
met the same host."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an arm: its place among the turns of all, and series by name: a value a step, None: not measured.

    `period_ns` has one value less than the others: no period of the last step is known. `pace` is by how much the host
    was slower than at its best in this run, before or behind the turn; None: it was not gauged.
    """

    order: int
    series: Mapping[str, Values]
    pace: float | None = None

    @property
    def quick(self) -> bool:
        """Whether the host was at its best, as far as is known."""
        return self.pace is None or self.pace <= QUICK


@dataclass(frozen=True, slots=True)
class ClaimPoint:
    """One launch of one arm.

    cell    what the axes chose, dotted path -> value, without the axis of the arms
    reason  why there are no turns; empty where there are
    """

    claim: str
    cell: Mapping[str, object]
    arm: str
    launch: int
    turns: tuple[Turn, ...] = ()
    reason: str = ""


def _quick(point: ClaimPoint) -> ClaimPoint:
    turns = tuple(turn if turn.quick else replace(turn, series={}) for turn in point.turns)
    return replace(point, turns=turns)


def _text(value: object) -> str:
    return json.dumps(value)


Where = Mapping[str, object]
"""Which cell: dotted path -> value. A cell is meant that has all of these."""


@dataclass(frozen=True, slots=True)
class ClaimData:
    """The points of one claim. `alike`: of two arms' turns of a round only those count that met the same host."""

    points: Sequence[ClaimPoint]
    alike: bool = False
    _found: dict[tuple[str, str], dict[int, ClaimPoint]] = field(default_factory=dict, init=False, repr=False)

    def quick(self) -> ClaimData:
        """The same without the values of turns in which the host was slow; the turns themselves keep their places."""
        return ClaimData([_quick(point) for point in self.points])

    def of_like_turns(self) -> ClaimData:
        """The same, for comparing turns in which the host was equally fast."""
        return ClaimData(self.points, alike=True)

    def arm(self, where: Where, arm: str) -> dict[int, ClaimPoint]:
        """Launch -> the arm's point in that cell, of launches that were measured."""
        key = repr(sorted(where.items())), arm
        if key not in self._found:
            self._found[key] = {p.launch: p for p in self._of(where, arm) if p.turns}
        return self._found[key]

    def reason(self, where: Where, arms: Sequence[str]) -> str:
        """Why a figure of these arms in that cell is missing."""
        for arm in arms:
            points = list(self._of(where, arm))
            if not points:
                return self._elsewhere(where, arm)
            failed = [point.reason for point in points if not point.turns]
            if failed:
                return f"arm {arm}: {failed[0]}"
        slow = any(not turn.quick for arm in arms for point in self._of(where, arm) for turn in point.turns)
        rest = "; the host was not at its best in enough turns" if slow else ""
        return f"no step of these arms has such a figure{rest}"

    def _elsewhere(self, where: Where, arm: str) -> str:
        """The same arm in the cell that differs least: what a run of an earlier spec has."""
        others = [
            [f"{path} {_text(point.cell.get(path))}, not {_text(value)}" for path, value in where.items()
             if point.cell.get(path) != value]
            for point in self.points if point.arm == arm
        ]  # fmt: skip
        if not others:
            return f"arm {arm} was not measured"
        nearest = sorted(others, key=len)[0]
        return f"arm {arm} was measured with {' and '.join(nearest)}; run its spec again"

    def _of(self, where: Where, arm: str) -> Iterator[ClaimPoint]:
        for point in self.points:
            if point.arm == arm and all(point.cell.get(path) == value for path, value in where.items()):
                yield point
