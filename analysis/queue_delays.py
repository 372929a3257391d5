"""How long copies waited from the end of their calls to their start, where a start before that end is no time below 0.

A copy is handed over somewhere within its call, so one that starts before the call returned (pageable memory: it runs
inside the call; or the times' error) has a delay that nobody measured: between 0 and `most`.

    most = start + err - begin of the call
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .columns import Columns, LongArray
from .stats import Number, mean, median, quantile
from .tables import TableSource, processes

METRIC = "queue_delay_p50_ns"
UNKNOWN = np.iinfo(np.int64).min
"""In `QueueDelays.values`: the copy started before its call returned. Sorts below every delay."""


@dataclass(frozen=True, slots=True)
class QueueDelays:
    """Delays [ns] of copies whose start and call are known.

    values  delay of each, UNKNOWN where the copy started before its call returned
    most    upper bound of each, never below its value
    """

    values: LongArray
    most: LongArray

    @property
    def early(self) -> int:
        """How many started before their call returned."""
        return int((self.values == UNKNOWN).sum())

    def quantile(self, percent: int) -> int | None:
        """Of all copies, those without a delay as the lowest; None where it falls on one of these."""
        found = quantile(self.values, percent)
        return None if found == UNKNOWN else found

    def median(self) -> Number | None:
        """The median of all copies; None where a middle one has no delay."""
        middle = (len(self.values) - 1) // 2
        known = len(self.values) > 0 and int(np.sort(self.values)[middle]) != UNKNOWN
        return median(self.values) if known else None

    def mean(self) -> Number | None:
        """The mean; None where one has no delay."""
        return None if self.early else mean(self.values)

    def reason(self) -> str | None:
        """Why a figure is null, with the bound of the median; None where every copy has a delay."""
        most_ns = median(self.most)
        if not self.early or most_ns is None:
            return None
        most_us = -(-most_ns // 100) / 10  # a bound is rounded upwards
        return (
            f"{self.early} of {len(self.values)} copies began before their call returned, or within the times' error"
            f" of it; the median is at most {most_us:.1f} µs"
        )


def queue_delays(recording: TableSource, buffer: str) -> QueueDelays:
    """Delays of the copies of `buffer` to the device in counted steps whose start and end of call are known."""
    values, most = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for process in processes(recording):
        rows = process.counted("copies")
        own = _delays(rows[rows.matches("buffer", buffer) & ~rows.matches("direction", "d2h")])
        values.append(own.values)
        most.append(own.most)
    return QueueDelays(np.concatenate(values), np.concatenate(most))


def _delays(copies: Columns) -> QueueDelays:
    start, has_start = copies.ints("start_ns")
    end, has_end = copies.ints("enqueue_end_ns")
    begin, has_begin = copies.ints("enqueue_start_ns")
    err, _ = copies.ints("err_ns")  # 0 where it is not known: the bound is then that of the times as recorded
    known = has_start & has_end
    delay = (start - end)[known]
    most = np.maximum(start + err - np.where(has_begin, begin, end), 0)[known]
    return QueueDelays(np.where(delay < 0, UNKNOWN, delay), np.maximum(most, delay))


def without_times_below_zero(
    metrics: Mapping[str, Number | None], reasons: Mapping[str, str]
) -> tuple[dict[str, Number | None], dict[str, str]]:
    """A stored metric row as today's: rows of earlier versions have delays below 0, which are null now."""
    value = metrics.get(METRIC)
    if value is None or value >= 0:
        return dict(metrics), dict(reasons)
    why = "the copy began before its call returned, or within the times' error of it"
    return {**metrics, METRIC: None}, {**reasons, METRIC: why}
