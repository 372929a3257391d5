"""What was measured for a claim: arms, launches and turns, as plain values.

    claim E1, cell {runner.table_width: 8192}, arm first, launch 0: turns 0, 5, 6, ... each with its series
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

PERIOD, HOST_WAIT = "period_ns", "host_wait_ns"
OF_DEVICE = frozenset({PERIOD, HOST_WAIT})
"""Series that hold what the device takes for a step."""
STAGES = ("preprocess_ns", "build_indices_ns", "slot_mapping_ns", "update_states_ns", "table_call_ns")
"""Series of stages that are the host's alone, but for its wait for a copy: the same in every round of a launch."""
Values = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an arm: its place among the turns of all, and series by name: a value a step, None: not measured.

    `period_ns` has one value less than the others: no period of the last step is known. `pace` is by how much the host
    was slower than at its best in this run, before or behind the turn; None: it was not gauged.
    """

    order: int
    series: Mapping[str, Values]
    pace: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimPoint:
    """One launch of one arm.

    cell    what the axes chose, dotted path -> value, without the axis of the arms
    reason  why there are no turns; empty where there are
    visit   rounds after which other launches measured; 0: it measured in one visit; None: its rounds are all alike
    """

    claim: str
    cell: Mapping[str, object]
    arm: str
    launch: int
    turns: tuple[Turn, ...] = ()
    reason: str = ""
    visit: int | None = 0

    def opens(self, round_: int) -> bool:
        """Whether a visit begins with this round."""
        return round_ % self.visit == 0 if self.visit else round_ == 0 and self.visit is not None


def _text(value: object) -> str:
    return json.dumps(value)


Where = Mapping[str, object]
"""Which cell: dotted path -> value. A cell is meant that has all of these."""


@dataclass(frozen=True, slots=True)
class ClaimData:
    """The points of one claim. `met`: what all turns with values have in common, in words; empty: nothing."""

    points: Sequence[ClaimPoint]
    met: str = ""
    _found: dict[tuple[str, str], dict[int, ClaimPoint]] = field(default_factory=dict, init=False, repr=False)

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
        if self.met:
            return f"in no launch did these arms meet {self.met} in rounds of both directions"
        return "no step of these arms has such a figure"

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
