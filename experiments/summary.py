"""The figures of one point, from its recording."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..analysis import summarise
from ..analysis.columns import Columns
from ..analysis.pace import IN_FLIGHT, PACE, PERIOD, most_in_flight, recorded_pace_ns
from ..analysis.stats import median
from ..instrumentation.recording.reader import Recording

if TYPE_CHECKING:
    from .measure import Measured

Metrics = dict[str, "int | float | None"]


def figures_of(recording: Recording) -> tuple[Metrics, dict[str, str]]:
    """(metrics by name with unit, why a metric is None)."""
    summary = summarise(recording)
    return dict(summary.metrics), dict(summary.reasons)


def block_figures(recording: Recording) -> Metrics:
    """The few figures of a point whose blocks are what is kept."""
    rows = Columns(recording.table("steps"))
    values, known = rows.ints("period_ns")
    counted = known & ~rows.flags("warmup", null=True)
    return {
        PERIOD: median(values[counted]), PACE: recorded_pace_ns(recording), IN_FLIGHT: most_in_flight([recording]),
        "steps_counted": int(counted.sum()),
    }  # fmt: skip


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
        return {"metrics": block_figures(measured.recording), "reasons": {}}
    metrics, reasons = figures_of(measured.recording)
    return {"metrics": metrics, "reasons": reasons}
