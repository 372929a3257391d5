"""`perf history`: stored results in order, looked through for steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...analysis.gate.block_values import EXPOSED, GATED
from ...analysis.gate.direction import COUNTED, UNKNOWN_DIRECTION, is_time, less_is_better
from ...analysis.gate.exact import EXACT
from ...analysis.history.found import SeriesFound, State
from ...analysis.history.judge import judge_series
from ...analysis.history.limits import StepLimits
from ...analysis.history.proposals import ruptures_proposals
from ...analysis.history.series import Gathered, Stored, gather, in_order
from ...errors import UsageError
from ...reports.history.view import HistoryView
from ..gate.stored import TIMED
from .store import read_history


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """`metrics`: none takes those that the gate judges, or all that carry a unit of time. `point`: part of its name."""

    paths: tuple[Path, ...]
    metrics: tuple[str, ...] = ()
    point: str = ""
    limits: StepLimits = field(default_factory=StepLimits)


@dataclass(frozen=True, slots=True)
class HistoryFound:
    """`in_time`: whether the results could be put in order of time."""

    results: tuple[Stored, ...]
    gathered: Gathered
    series: tuple[SeriesFound, ...]
    limits: StepLimits
    in_time: bool

    def view(self) -> HistoryView:
        """What a page is made from."""
        gathered = self.gathered
        return HistoryView(
            len(self.results), self.in_time, gathered.machines, gathered.unknown, self.series, self.limits
        )

    @property
    def slower(self) -> tuple[SeriesFound, ...]:
        """Series whose last step made them worse."""
        return tuple(one for one in self.series if one.steps and one.steps[-1].slower)

    @property
    def unmeasured(self) -> tuple[SeriesFound, ...]:
        """Series of which the newest result has no value: failed, null, not a number, a time of 0."""
        return tuple(one for one in self.series if not _measured(one.series.metric, one.series.values[-1]))

    @property
    def newest_is_silent(self) -> bool:
        """Whether the newest result of all has no value anywhere: it failed, or nobody knows on which machine."""
        return not any(
            one.series.results[-1] is self.results[-1] and _measured(one.series.metric, one.series.values[-1])
            for one in self.series
        )

    def exit_code(self, *, fail_on_slower: bool) -> int:
        """0; 3 where nothing was measured, 4 where no series decides anything.

        `fail_on_slower`: 1 where a series got slower, and 3 where the newest result of one, or of all, has no value.
        """
        if all(one.state is State.NOT_MEASURED for one in self.series):
            return 3
        if fail_on_slower and self.slower:
            return 1
        if fail_on_slower and (self.unmeasured or self.newest_is_silent):
            return 3
        if not any(one.state.decided for one in self.series):
            return 4
        return 0


def find_history(query: HistoryQuery) -> HistoryFound:
    """What there is in the results of `query`. UsageError for what cannot be read, and for a metric that none has."""
    propose = ruptures_proposals()
    stored = read_history(query.paths)
    ordered = in_order(stored)
    gathered = gather(ordered, lambda names: _chosen(names, query.metrics))
    series = [one for one in gathered.series if query.point in one.point]
    for metric in query.metrics:
        if not less_is_better(metric):
            raise UsageError(f"--metric {metric}: {UNKNOWN_DIRECTION}")
        if stored and not any(metric == name for one in stored for _, name in one.result.values):
            raise UsageError(f"--metric {metric}: no result has it")
    found = tuple(judge_series(one, propose, query.limits, exact=_exact(one.metric)) for one in series)
    in_time = all(one.time is not None for one in stored)
    return HistoryFound(ordered, gathered, found, query.limits, in_time)


def _measured(metric: str, value: float | None) -> bool:
    if value is None or not math.isfinite(value):
        return False
    return value > 0 or (value == 0 and (_exact(metric) or metric == EXPOSED))


def _exact(metric: str) -> bool:
    return metric in COUNTED or metric in EXACT or not is_time(metric)


def _chosen(names: Iterable[str], metrics: Sequence[str]) -> list[str]:
    present = list(names)
    if metrics:
        return [metric for metric in metrics if metric in present]
    ours = [metric for metric in dict.fromkeys((*TIMED, *GATED, *COUNTED, *EXACT)) if metric in present]
    return ours or [metric for metric in present if is_time(metric)]
