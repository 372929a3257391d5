"""Padding, size by size: an arm whose graphs have exactly the batch's size against one with a ladder of sizes.

Both arms go through the same sizes, and a step's partner is the one in the same place of the same turn. Runners of
their own differ by a constant (where their memory lies): it is taken from the sizes that the ladder has, where nothing
is padded, and subtracted.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .figures import ByLaunch, Unit
from .paired import rounds
from .points import ClaimData, ClaimPoint, Turn, Where


class Waste(NamedTuple):
    """Of one size: tokens of padding, and what they take of the device, in ns."""

    tokens: int
    time_ns: float


def wastes(exact: ClaimPoint, padded: ClaimPoint, series: str) -> list[Waste]:
    """A row for each step that was padded; empty where no step was not, for then there is nothing to set to zero."""
    rows = [row for one, two in rounds(exact, padded) for row in _of_turn(one, two, series)]
    level = [row.time_ns for row in rows if row.tokens == 0]
    if not level:
        return []
    zero = statistics.median(level)
    return [Waste(row.tokens, row.time_ns - zero) for row in rows if row.tokens]


def _of_turn(exact: Turn, padded: Turn, series: str) -> Iterator[Waste]:
    """Steps whose size was that of the step before: the first replay of a graph takes 70 us more, on an H200."""
    real, to = padded.series.get("num_tokens", ()), padded.series.get("padded_tokens", ())
    times = zip(exact.series.get(series, ()), padded.series.get(series, ()), strict=False)
    before: int | None = None
    for size, captured, (early, late) in zip(real, to, times, strict=False):
        if size is not None and captured is not None and early is not None and late is not None and size == before:
            yield Waste(captured - size, late - early)
        before = size


@dataclass(frozen=True, slots=True)
class WasteCorrelation:
    """Pearson's correlation of token waste and time waste over the sizes that are padded."""

    where: Where
    exact: str
    padded: str
    series: str
    unit: Unit = "1"

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """See Figure."""
        return {
            launch: statistics.correlation([row.tokens for row in rows], [row.time_ns for row in rows])
            for launch, rows in _by_launch(self, data).items()
            if len({row.tokens for row in rows}) > 1 and len({row.time_ns for row in rows}) > 1
        }

    def allowed(self, data: ClaimData) -> float | None:
        """No time: nothing is asked of its width."""
        return None

    def missing(self, data: ClaimData) -> str:
        """See Figure."""
        return data.reason(self.where, (self.exact, self.padded))


@dataclass(frozen=True, slots=True)
class FreeShare:
    """The share of padded sizes whose padding takes no time, or less than none."""

    where: Where
    exact: str
    padded: str
    series: str
    unit: Unit = "1"

    def by_launch(self, data: ClaimData) -> ByLaunch:
        """See Figure."""
        return {
            launch: sum(row.time_ns <= 0 for row in rows) / len(rows)
            for launch, rows in _by_launch(self, data).items() if rows
        }  # fmt: skip

    def allowed(self, data: ClaimData) -> float | None:
        """No time: nothing is asked of its width."""
        return None

    def missing(self, data: ClaimData) -> str:
        """See Figure."""
        return data.reason(self.where, (self.exact, self.padded))


def _by_launch(figure: WasteCorrelation | FreeShare, data: ClaimData) -> dict[int, list[Waste]]:
    exact, padded = data.arm(figure.where, figure.exact), data.arm(figure.where, figure.padded)
    return {
        launch: wastes(exact[launch], point, figure.series) for launch, point in padded.items() if launch in exact
    }
