"""The figures of one point, from its recording."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..analysis import summarise
from ..instrumentation.recording.reader import Recording

if TYPE_CHECKING:
    from .measure import Measured

Metrics = dict[str, "int | float | None"]


def figures_of(recording: Recording) -> tuple[Metrics, dict[str, str]]:
    """(metrics by name with unit, why a metric is None)."""
    summary = summarise(recording)
    return dict(summary.metrics), dict(summary.reasons)


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
    metrics, reasons = figures_of(measured.recording)
    return {"metrics": metrics, "reasons": reasons}
