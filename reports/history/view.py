"""What a page of `perf history` is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.history.found import SeriesFound, Step
from ...analysis.history.limits import StepLimits
from ...analysis.history.series import Machine, Stored


@dataclass(frozen=True, slots=True)
class HistoryView:
    """`unknown`: results that name no GPU. `in_time`: the results were ordered by time, else they are as given."""

    num_results: int
    in_time: bool
    machines: Sequence[Machine]
    unknown: Sequence[Stored]
    series: Sequence[SeriesFound]
    limits: StepLimits

    def steps(self) -> list[tuple[SeriesFound, Step]]:
        """All steps, those that made it worse first, the larger ones before the smaller."""
        found = [(one, step) for one in self.series for step in one.steps]
        return sorted(found, key=lambda pair: (not pair[1].slower, -abs(pair[1].effect or 0.0)))
