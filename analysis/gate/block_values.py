"""From a recording of one arm's launch to figures of its blocks: what is timed, what is counted, what explains.

    steps    0 1 2 | 3 ... 52 | 53   54 55 56 | 57 ...        settling steps and the last one carry `warmup`
    block          | block 0  |               | block 1

Both arms are read by the same code, ours, whatever code wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..columns import BoolArray, Columns, LongArray
from ..exposure import exposure
from ..pace import PACE as PACE
from ..pace import PERIOD as PERIOD
from ..pace import pace_ns, window_of
from ..phases import HOST_PHASES, sum_by_step
from ..replay import replays
from ..table_copies import table_buffer
from ..tables import Process, TableSource, processes
from .block_counts import Counts, counted, counted_tokens
from .pairs import Floats

_DEVICE_PHASES = HOST_PHASES[:-1]
DEVICE = "device_p50_ns"
"""Of a step: from the first to the last event of each of its phases, added up."""
EXPOSED = "exposed_p50_ns"
BESIDE = {"period_p90_ns": 90.0, "period_p99_ns": 99.0}
"""Percentiles of the step's period over a block's steps, shown beside the medians and gated only where asked for: the
tail of 50 steps is a step or two."""
GATED = (
    PACE, PERIOD, DEVICE,
    *(f"{name}_p50_ns" for name in _DEVICE_PHASES), *(f"{name}_span_p50_ns" for name in _DEVICE_PHASES), EXPOSED,
)  # fmt: skip
"""What is gated by launches, see `gated`: `PERIOD` is the median period; where steps are pipelined a single period is
no step's time, and `PACE` is gated in its place. `between_steps` is the scheduler's: it is in both, and named where it
grew."""
OF_THE_STEP = frozenset(GATED) - {PACE, PERIOD, DEVICE}
"""A part's difference is told as a share of the step's time: what it costs the step, 0 included. The step's own time
and device time are compared as ratios."""


def step_time(metrics: Iterable[str]) -> str:
    """Which of `metrics` is what a step takes: the pace where steps are pipelined, else the median period."""
    return PACE if PACE in metrics else PERIOD


def gated(metrics: Iterable[str]) -> list[str]:
    """Those of `metrics` that are gated where nobody chooses: one figure for what a step takes."""
    there = set(metrics)
    single = {PERIOD} if step_time(there) == PACE else set()
    return [metric for metric in GATED if metric in there - single]


@dataclass(frozen=True, slots=True)
class BlockRange:
    """The counted steps of a block: `steps` of them from number `first` on."""

    first: int
    steps: int


@dataclass(frozen=True, slots=True)
class LaunchValues:
    """Of one arm, one point and one launch.

    timed    metric -> [blocks] the block's median (of `BESIDE`: percentile) over its steps, ns; not-a-number where a
             step has none
    counted  exact metric -> its value over all blocks; None where it was not measured
    ranges   host sub-range (`build_indices`, ...) -> [blocks] median, ns: explains, is not judged
    tokens   that its counted steps computed: the work, which both arms must have in common; None where not recorded
    """

    timed: dict[str, Floats]
    counted: Counts
    ranges: dict[str, Floats]
    tokens: int | None = None


def block_values(
    recording: TableSource, blocks: Sequence[BlockRange], *, device_times: bool, exposed: bool = True,
    in_flight: int = 1,
) -> LaunchValues:  # fmt: skip
    """The figures of `blocks`. `device_times`: the device's clock was real, so that its spans are times.

    exposed     replay the run for the exposed time of the table's copy, which takes longer than all the rest
    in_flight   steps on their way at once, in the arm that has more: both arms' paces have one window
    """
    replayed = replays(recording)
    parts = processes(replayed)
    process = parts[0] if len(parts) == 1 else Process({}, {})  # two processes in one launch: no figure is anybody's
    numbers = np.concatenate([np.arange(b.first, b.first + b.steps) for b in blocks] or [np.zeros(0, np.int64)])
    cuts = np.cumsum([b.steps for b in blocks])[:-1]

    def medians(rows: Columns, column: tuple[LongArray, BoolArray], share: float = 50.0) -> Floats:
        values, valid = sum_by_step(rows, column, numbers)
        known = np.where(valid, values.astype(np.float64), np.nan)
        return np.array([np.percentile(part, share) if len(part) else np.nan for part in np.split(known, cuts)])

    steps, phases = process.rows("steps"), process.rows("phases")
    timed = {name: medians(steps, steps.ints("period_ns"), share) for name, share in {PERIOD: 50.0, **BESIDE}.items()}
    if in_flight > 1:
        timed[PACE] = _paces(*sum_by_step(steps, steps.ints("period_ns"), numbers), cuts, window_of(in_flight))
    for name in HOST_PHASES:
        rows = phases[phases.matches("name", name)]
        timed[f"{name}_p50_ns"] = medians(rows, rows.ints("host_ns"))
        if device_times and name in _DEVICE_PHASES:
            timed[f"{name}_span_p50_ns"] = medians(rows, rows.ints("span_ns"))
    if device_times:
        rows = phases[phases.matches("name", *_DEVICE_PHASES)]
        timed[DEVICE] = medians(rows, rows.ints("span_ns"))
    if exposed:
        copies = Columns(exposure(replayed, table_buffer(replayed)).steps)
        timed[EXPOSED] = medians(copies, copies.ints("exposed_ns"))
    ranges = process.rows("spans")
    ranges = ranges[ranges.matches("kind", "range")]
    explaining = {}
    for name in ranges.coded("name")[1]:
        rows = ranges[ranges.matches("name", name)]
        explaining[name] = medians(rows, _length(rows))
    counts = counted(process, numbers)
    return LaunchValues(_measured(timed), counts, _measured(explaining), counted_tokens(process, numbers))


def _paces(periods: LongArray, known: BoolArray, cuts: LongArray, window: int) -> Floats:
    """[blocks] the pace of each; not-a-number of a block without steps, or of which a period is not known."""
    blocks = zip(np.split(periods, cuts), np.split(known, cuts), strict=True)
    paces = [pace_ns(block, window) if valid.all() else None for block, valid in blocks]
    return np.array([np.nan if pace is None else pace for pace in paces], dtype=np.float64)


def _length(rows: Columns) -> tuple[LongArray, BoolArray]:
    (start, has_start), (end, has_end) = rows.ints("start_ns"), rows.ints("end_ns")
    return end - start, has_start & has_end


def _measured(figures: dict[str, Floats]) -> dict[str, Floats]:
    """Those that any block has: what no block can have (no copy, no GPU) is no figure of this arm."""
    return {name: values for name, values in figures.items() if np.isfinite(values).any()}
