"""The pace of a block of successive steps: what a step takes where steps lean on one another.

    two in flight       start[n] = tokens of step n-2 + host work h[n]      period[n] = device's step + h[n+1] - h[n]
    tokens a step late  long, about two of the device's steps | short, the host's work alone | about one

With steps in flight a step starts when an earlier one's tokens are back, so a long period is made up for by the next,
and tokens that come late set a rhythm: of three steps with two in flight. The median of such periods is no step's time:
over 40 blocks of this kind on an H200 (two in flight, the copies' stream at equal priority) it lay 22 % below the mean
of the block, faster than the device can be, and the median over sums of two steps 8 % above. Sums over whole rhythms
are right: the pace is the median, over all windows of successive steps, of (start[n + window] - start[n]) / window.
Over windows of six it lay 0.3 % below the mean. The mean is the pace, too, but one disturbed step moves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from .columns import LongArray
from .stats import Number, exact, mean, median
from .tables import Process, TableSource, processes

PACE, PERIOD, IN_FLIGHT = "pace_ns", "period_p50_ns", "steps_in_flight"
"""The metrics' names, in summaries and in the gate."""


def window_of(steps_in_flight: int) -> int:
    """Steps of a window that holds whole rhythms of as many steps as are in flight, and of one more: 6 of two in
    flight. A step that waits for its own tokens leans on none: 1, which makes the pace the median period.
    """
    return 1 if steps_in_flight < 2 else math.lcm(steps_in_flight, steps_in_flight + 1)


WINDOW = window_of(2)


def pace_ns(periods_ns: Sequence[int] | LongArray, window: int = WINDOW) -> Number | None:
    """The pace of steps that followed one another, by their periods in order: exact, in ns. None of nothing.

    Of fewer steps than a window holds it is their mean.
    """
    return pace_of_blocks_ns([periods_ns], window)


def pace_of_blocks_ns(blocks_ns: Iterable[Sequence[int] | LongArray], window: int = WINDOW) -> Number | None:
    """The pace over the windows of several blocks: none reaches from one into the next. Blocks that are shorter than a
    window speak only where all are: then the pace is the mean period.
    """
    blocks = [np.asarray(block, dtype=np.int64) for block in blocks_ns]
    ends = [np.concatenate(([0], np.cumsum(block))) for block in blocks if len(block) >= window]
    if not ends:
        return mean(np.concatenate(blocks)) if blocks else None
    middle = median(np.concatenate([end[window:] - end[:-window] for end in ends]))
    assert middle is not None
    return exact(Fraction(middle) / window)


def recorded_pace_ns(recording: TableSource) -> Number | None:
    """The pace of the counted steps of a recording, over the windows of steps that followed one another; None without
    a period. Of steps that wait for their own tokens by windows of six as well: to be held against pipelined ones.
    """
    window = max(WINDOW, window_of(most_in_flight([recording])))
    return pace_of_blocks_ns([block for process in processes(recording) for block in _blocks(process)], window)


def step_ns(metrics: Mapping[str, Number | None]) -> Number | None:
    """Of a summary's metrics, what a step takes: the pace where steps are pipelined, else the median period."""
    return metrics.get(PACE if pipelined(metrics) else PERIOD)


def pipelined(metrics: Mapping[str, Number | None]) -> bool:
    """Whether a step began before the tokens of another were back. A gate's result has the pace of such steps only."""
    known = metrics.get(IN_FLIGHT)
    return metrics.get(PACE) is not None if known is None else known > 1


def _blocks(process: Process) -> list[LongArray]:
    """Periods of the counted steps, cut where a number is missing or a period is not known."""
    steps = process.counted("steps")
    (numbers, _), (periods, known) = steps.ints("step"), steps.ints("period_ns")
    order = np.argsort(numbers[known], kind="stable")
    numbers, periods = numbers[known][order], periods[known][order]
    return np.split(periods, np.flatnonzero(np.diff(numbers) != 1) + 1) if len(periods) else []


def most_in_flight(recordings: Iterable[TableSource]) -> int:
    """Steps on their way at once, in the recording that has most."""
    return max((steps_in_flight(process) for one in recordings for process in processes(one)), default=1)


def steps_in_flight(process: Process) -> int:
    """How many steps are on their way at once, as a counted step usually is: 1 + the steps that began before its tokens
    were back. 1 as well where no latency was recorded.
    """
    steps = process.rows("steps")
    (start, started), (latency, known) = steps.ints("start_ns"), steps.ints("latency_ns")
    chosen = started & known & process.is_counted(steps.ints("step")[0])
    starts = np.sort(start[started])
    begun = start[chosen]
    behind = np.searchsorted(starts, begun + latency[chosen], side="left") - np.searchsorted(starts, begun, "right")
    return 1 + math.floor(median(behind) or 0)
