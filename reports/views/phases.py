"""Where the time of the counted steps goes, as means that add up, and step by step for the chart over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...analysis.pace import most_in_flight, recorded_pace_ns
from ...analysis.phases import HOST_PHASES, PhaseSummary, phase_steps, phase_summary, step_kinds
from ...analysis.stats import Number, mean, median, quantile
from ...analysis.tables import LongArray, Process, TableSource, ints, processes
from ..decimation import keep_extremes

WHOLE = ("period_ns", "latency_ns", "host_busy_ns", "host_wait_ns")
"""Columns of `steps` that are about a step as a whole."""


@dataclass(frozen=True, slots=True)
class PhaseView:
    """Phases of a recording.

    mean_ns     host phase -> its mean over the counted steps that have all four phases: these add up to the mean
                period; over the steps that have the phase where none has all four
    period_*    of the counted steps, None when no step has one
    pace_ns     what a step takes where steps are pipelined; None where each waits for its own tokens
    latency_*   the same, from a step's begin until its tokens are with the host: longer than the period where steps
                overlap
    whole       a row a column of WHOLE: name, n, p10_ns, p50_ns, p90_ns over the counted steps that have it
    course      steps of the chart over time, decimated, extremes kept: step, period_ns, counted, num_tokens, phases
    num_steps   recorded steps in all
    kinds       counted steps by what they compute (`analysis.phases.step_kinds`)
    """

    summary: PhaseSummary
    mean_ns: dict[str, Number | None]
    period_mean_ns: Number | None
    period_p50_ns: Number | None
    period_p99_ns: Number | None
    period_max_ns: Number | None
    latency_p50_ns: Number | None
    whole: tuple[dict[str, object], ...]
    course: pd.DataFrame
    num_steps: int
    kinds: dict[str, int]
    pace_ns: Number | None = None

    @property
    def step_ns(self) -> Number | None:
        """What a step takes: the pace where steps are pipelined, else the median period."""
        return self.period_p50_ns if self.pace_ns is None else self.pace_ns

    @property
    def step_words(self) -> str:
        """By which figure `step_ns` is told."""
        return "median period" if self.pace_ns is None else "pace of pipelined steps"


def gather_phases(recording: TableSource) -> PhaseView:
    """Compute the view; a recording without steps gives nulls and an empty course."""
    steps = phase_steps(recording)
    counted = steps[steps["counted"].to_numpy(dtype=np.bool_)]
    period, known = ints(counted, "period_ns")
    period = period[known]
    return PhaseView(
        summary=phase_summary(recording),
        mean_ns=_means(counted),
        period_mean_ns=mean(period), period_p50_ns=median(period), period_p99_ns=quantile(period, 99),
        period_max_ns=int(period.max()) if len(period) else None,
        latency_p50_ns=median(_counted(recording, "latency_ns")),
        whole=tuple(_quantiles(name, _counted(recording, name)) for name in WHOLE),
        course=_course(recording, steps), num_steps=len(steps), kinds=step_kinds(recording),
        pace_ns=recorded_pace_ns(recording) if most_in_flight([recording]) > 1 else None,
    )


def _counted(recording: TableSource, name: str) -> LongArray:
    found = [process.counted("steps").ints(name) for process in processes(recording)]
    values: LongArray = np.concatenate([np.zeros(0, dtype=np.int64), *(value[known] for value, known in found)])
    return values


def _quantiles(name: str, values: LongArray) -> dict[str, object]:
    quantiles = {"p10_ns": quantile(values, 10), "p50_ns": median(values), "p90_ns": quantile(values, 90)}
    return {"name": name, "n": len(values), **quantiles}


def _means(counted: pd.DataFrame) -> dict[str, Number | None]:
    whole = counted[counted["sum_ns"].notna().to_numpy(dtype=np.bool_)]
    frame = whole if len(whole) else counted
    found = {}
    for phase in HOST_PHASES:
        values, valid = ints(frame, f"{phase}_ns")
        found[phase] = mean(values[valid])
    return found


def _course(recording: TableSource, steps: pd.DataFrame) -> pd.DataFrame:
    """Every step of the recording, warm-up too, thinned so that the slowest and the fastest of each stretch stay."""
    tokens = recording.table("steps").reset_index(drop=True)
    columns = ["step", "period_ns", "counted", *(f"{phase}_ns" for phase in HOST_PHASES)]
    frame = steps[columns].reset_index(drop=True)
    if len(tokens) == len(frame) and "num_tokens" in tokens.columns and not isinstance(recording, Process):
        frame = frame.assign(num_tokens=tokens["num_tokens"].array)
    else:
        frame = frame.assign(num_tokens=pd.array([None] * len(frame), dtype="Int64"))
    period, known = ints(frame, "period_ns")
    return frame.iloc[keep_extremes(np.where(known, period.astype(np.float64), np.nan))]
