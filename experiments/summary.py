"""The figures of one point, from its recording."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..analysis import summarise
from ..analysis.columns import Columns
from ..analysis.pace import PACE, recorded_pace_ns
from ..analysis.stats import median
from ..instrumentation.recording.reader import Recording

if TYPE_CHECKING:
    from .measure import Measured

Metrics = dict[str, "int | float | None"]


def figures_of(recording: Recording) -> tuple[Metrics, dict[str, str]]:
    """(metrics by name with unit, why a metric is None)."""
    summary = summarise(recording)
    return dict(summary.metrics), dict(summary.reasons)


def block_figures(recording: Recording) -> tuple[Metrics, dict[str, str]]:
    """The few figures of a point whose blocks are what is kept, and why one is None."""
    rows = Columns(recording.table("steps"))
    values, known = rows.ints("period_ns")
    counted = known & ~rows.flags("warmup", null=True)
    pace, why = recorded_pace_ns(recording)
    metrics = {"period_p50_ns": median(values[counted]), PACE: pace, "steps_counted": int(counted.sum())}
    return metrics, {} if why is None else {PACE: why}


def origin_of(measured: Measured) -> dict[str, Any]:
    """What a reader must know beside the figures: the device, whether it was a model, how far the loop came."""
    meta = measured.recording.meta
    return {
        "device": meta.device,
        "modelled": meta.modelled,
        "calibration": meta.calibration,
        "outcome": dataclasses.asdict(measured.outcome),
    }


def summary_of(measured: Measured) -> dict[str, Any]:
    """What summary.json says of a measured point."""
    if measured.recording.meta.configuration["measure"]["keep"] == "blocks":
        metrics, reasons = block_figures(measured.recording)
    else:
        metrics, reasons = figures_of(measured.recording)
    return {"metrics": metrics, "reasons": reasons}
