"""Figures of a claim: each gives a value for every launch, and says how wide its interval may be.

    Level(cell, arm, series)             the median step, or with by="turn" the median turn        ns
    Difference(cell, left, right, ..)    the median of left - right over steps in the same place, or over turns
    Ratio(cell, left, right, ..)         the median of left / right over rounds
    Share(part, whole)                   one figure over another one of the same launch
    Removed(left, taken)                 1 - left / taken
    Less(left, right)                    one figure minus another one of the same launch

Intervals may be as wide as the times behind them: a time is known well enough when its half-width is at most 5 us or
2 % of it, whichever is more, and a difference when that is so of its longer arm. What is divided passes that on.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from .paired import OfRound, over_rounds, step_differences, step_ratio, turn_difference, turn_means, turn_ratio, values
from .points import PERIOD, ClaimData, Where

Unit = Literal["ns", "1"]
By = Literal["step", "turn"]
ByLaunch = dict[int, float]
LEAST_NS, SHARE = 5_000.0, 0.02


class Figure(Protocol):
    """What a finding is about."""

    @property
    def unit(self) -> Unit:
        """`ns`, or `1` for what has none."""
        ...

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """Launch -> value, of the launches that have one."""
        ...

    def allowed(self, data: ClaimData) -> float | None:
        """How wide half of the interval may be; None: as wide as it is."""
        ...

    def missing(self, data: ClaimData) -> str:
        """Why no launch has a value."""
        ...


def time_allowed(time_ns: float) -> float:
    """Half-width with which a time is known well enough."""
    return max(LEAST_NS, SHARE * abs(time_ns))


@dataclass(frozen=True, slots=True)
class Level:
    """The median step of one arm."""

    where: Where
    arm: str
    series: str = PERIOD
    by: By = "step"
    unit: Unit = "ns"

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """See Figure."""
        read = values if self.by == "step" else turn_means
        found = {launch: read(point, self.series) for launch, point in data.arm(self.where, self.arm).items()}
        return {launch: float(statistics.median(steps)) for launch, steps in found.items() if steps}

    def allowed(self, data: ClaimData) -> float | None:
        """See Figure."""
        level = mean(self.by_launch(data))
        return None if level is None else time_allowed(level)

    def missing(self, data: ClaimData) -> str:
        """See Figure."""
        return data.reason(self.where, (self.arm,))


@dataclass(frozen=True, slots=True)
class Difference:
    """`left` - `right`, a median over steps in the same place of their turns."""

    where: Where
    left: str
    right: str
    series: str = PERIOD
    by: By = "step"
    unit: Unit = "ns"

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """See Figure."""
        of_round = step_differences if self.by == "step" else turn_difference
        return _by_launch(self, data, of_round)

    def allowed(self, data: ClaimData) -> float | None:
        """See Figure."""
        levels = [mean(Level(self.where, arm, self.series, self.by).by_launch(data)) for arm in (self.left, self.right)]
        known = [level for level in levels if level is not None]
        return time_allowed(max(known)) if len(known) == len(levels) else None

    def missing(self, data: ClaimData) -> str:
        """See Figure."""
        return data.reason(self.where, (self.left, self.right))


@dataclass(frozen=True, slots=True)
class Ratio:
    """`left` / `right`, a median over rounds."""

    where: Where
    left: str
    right: str
    series: str = PERIOD
    by: By = "step"
    unit: Unit = "1"

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """See Figure."""
        return _by_launch(self, data, step_ratio if self.by == "step" else turn_ratio)

    def allowed(self, data: ClaimData) -> float | None:
        """See Figure."""
        left, right = (Level(self.where, arm, self.series, self.by) for arm in (self.left, self.right))
        return Share(left, right).allowed(data)

    def missing(self, data: ClaimData) -> str:
        """See Figure."""
        return data.reason(self.where, (self.left, self.right))


@dataclass(frozen=True, slots=True)
class Share:
    """`part` / `whole`, of equal launches."""

    part: Figure
    whole: Figure
    unit: Unit = "1"

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """See Figure."""
        part, whole = self.part.by_launch(data), self.whole.by_launch(data)
        return {launch: value / whole[launch] for launch, value in part.items() if whole.get(launch)}

    def allowed(self, data: ClaimData) -> float | None:
        """What the widths of part and whole come to, at worst."""
        part, whole = mean(self.part.by_launch(data)), mean(self.whole.by_launch(data))
        of_part, of_whole = self.part.allowed(data), self.whole.allowed(data)
        if part is None or not whole or of_part is None or of_whole is None:
            return None
        return (of_part + abs(part / whole) * of_whole) / abs(whole)

    def missing(self, data: ClaimData) -> str:
        """See Figure."""
        return (self.whole if self.part.by_launch(data) else self.part).missing(data)


@dataclass(frozen=True, slots=True)
class Removed:
    """1 - `left` / `taken`: how much of `taken` is gone in `left`."""

    left: Figure
    taken: Figure
    unit: Unit = "1"

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """See Figure."""
        return {launch: 1.0 - value for launch, value in Share(self.left, self.taken).by_launch(data).items()}

    def allowed(self, data: ClaimData) -> float | None:
        """See Figure."""
        return Share(self.left, self.taken).allowed(data)

    def missing(self, data: ClaimData) -> str:
        """See Figure."""
        return Share(self.left, self.taken).missing(data)


@dataclass(frozen=True, slots=True)
class Less:
    """`left` - `right`, two figures of different cells."""

    left: Figure
    right: Figure
    unit: Unit = "ns"

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """See Figure."""
        left, right = self.left.by_launch(data), self.right.by_launch(data)
        return {launch: value - right[launch] for launch, value in left.items() if launch in right}

    def allowed(self, data: ClaimData) -> float | None:
        """The wider one."""
        widths = [self.left.allowed(data), self.right.allowed(data)]
        known = [width for width in widths if width is not None]
        return max(known) if len(known) == len(widths) else None

    def missing(self, data: ClaimData) -> str:
        """See Figure."""
        return (self.right if self.left.by_launch(data) else self.left).missing(data)


def _by_launch(figure: Difference | Ratio, data: ClaimData, of_round: OfRound) -> ByLaunch:
    left, right = data.arm(figure.where, figure.left), data.arm(figure.where, figure.right)
    both = {launch: (point, right[launch]) for launch, point in left.items() if launch in right}
    found = {launch: over_rounds(*points, figure.series, of_round) for launch, points in both.items()}
    return {launch: value for launch, value in found.items() if value is not None}


def mean(by_launch: ByLaunch) -> float | None:
    """The mean over launches; None without any."""
    return statistics.fmean(by_launch.values()) if by_launch else None


def launches_of(figures: Sequence[Figure], data: ClaimData) -> int:
    """Launches of the figure that has most."""
    return max((len(figure.by_launch(data)) for figure in figures), default=0)
