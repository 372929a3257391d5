"""What the JSON format holds: a view's numbers under stable names, with the kind and the version of the layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ...analysis.captures.figures import CaptureFigures
from ...analysis.compare import Comparison
from ...analysis.summary import Summary
from .index import IndexEntry
from .recording import RecordingView
from .sweep import SweepView

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Report:
    """The head of every JSON report. `modelled` and `calibration` hold for all of `content` unless it says else."""

    kind: str
    version: int
    name: str
    modelled: bool
    calibration: str | None
    content: Any


def recording_report(view: RecordingView, summary: Summary) -> Report:
    """A recording's figures and its metric row; the recording's own tables stay in its Parquet files."""
    content = {
        "meta": msgspec.to_builtins(view.meta), "summary": summary, "advice": view.advice, "phases": view.phases,
        "copies": view.copies, "buffers": view.pinned, "padding": view.padding, "gaps": view.gaps,
        "speculation": view.speculation,
        "timelines": view.timelines,
    }
    return Report("recording", REPORT_VERSION, view.name, view.meta.modelled, view.meta.calibration, content)


def capture_report(figures: CaptureFigures, name: str) -> Report:
    """All figures of an imported capture."""
    return Report("capture", REPORT_VERSION, name, False, None, figures)


def comparison_report(found: Comparison, name: str) -> Report:
    """Two recordings side by side. `agrees` is null where nothing was judged."""
    content = {"agrees": found.agrees, "comparison": found}
    return Report("comparison", REPORT_VERSION, name, found.modelled, found.calibration, content)


def sweep_report(sweep: SweepView) -> Report:
    """Parameters and metrics of every point. Recordings of the representatives have reports of their own."""
    content = {
        "points": sweep.points, "environment": sweep.environment, "notes": sweep.notes, "varying": sweep.varying,
    }
    return Report("sweep", REPORT_VERSION, sweep.name, bool(sweep.origin), sweep.origin or None, content)


def index_report(entries: Sequence[IndexEntry], name: str) -> Report:
    """The entries as they are."""
    calibrations = sorted({entry.calibration for entry in entries if entry.calibration})
    return Report("index", REPORT_VERSION, name, bool(calibrations), ", ".join(calibrations) or None, tuple(entries))
