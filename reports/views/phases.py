"""Where the time of the counted steps goes, as means that add up, and step by step for the chart over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...analysis.phases import HOST_PHASES, PhaseSummary, phase_steps, phase_summary
from ...analysis.stats import Number, mean, median, quantile
from ...analysis.tables import Process, TableSource, ints, processes
from ..decimation import keep_extremes


@dataclass(frozen=True, slots=True)
class PhaseView:
    """Phases of a recording.

    mean_ns     host phase -> its mean over the counted steps that have all four phases: these add up to the mean
                period; over the steps that have the phase where none has all four
    period_*    of the counted steps, None when no step has one
    latency_*   the same, from a step's begin until its tokens are with the host: longer than the period where steps
                overlap
    course      steps of the chart over time, decimated, extremes kept: step, period_ns, counted, num_tokens, phases
    num_steps   recorded steps in all
    """

    summary: PhaseSummary
    mean_ns: dict[str, Number | None]
    period_mean_ns: Number | None
    period_p50_ns: Number | None
    period_p99_ns: Number | None
    period_max_ns: Number | None
    latency_p50_ns: Number | None
    course: pd.DataFrame
    num_steps: int


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
        period_max_ns=int(period.max()) if len(period) else None, latency_p50_ns=_latency(recording),
        course=_course(recording, steps), num_steps=len(steps),
    )


def _latency(recording: TableSource) -> Number | None:
    found = [process.counted("steps").ints("latency_ns") for process in processes(recording)]
    return median(np.concatenate([np.zeros(0, dtype=np.int64), *(values[known] for values, known in found)]))


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
