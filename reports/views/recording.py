"""Everything that a recording's page shows, computed once and frozen; the renderers only write it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from ...analysis.advice import Advice, advice, host_waits
from ...analysis.gaps import Gaps, gaps
from ...analysis.graph_memory import GraphMemory, graph_memory
from ...analysis.padding import Padding, padding
from ...analysis.pinned import pinned_reuse
from ...analysis.replay import replays
from ...analysis.speculation import Speculation, speculation
from ...instrumentation.recording.meta import RecordingMeta
from ...instrumentation.recording.schema import TABLES
from .copies import CopyView, gather_copies
from .phases import PhaseView, gather_phases
from .source import RecordingLike, calibration_name
from .steps import gather_timelines
from .timeline import StepTimeline


@dataclass(frozen=True, slots=True)
class RecordingView:
    """A recording's page in numbers. `tables` are the recording's own, for counts of nulls; nothing writes to them."""

    name: str
    meta: RecordingMeta
    calibration: pd.DataFrame
    phases: PhaseView
    copies: CopyView
    pinned: pd.DataFrame
    padding: Padding
    graph_memory: GraphMemory | None
    gaps: Gaps
    advice: tuple[Advice, ...]
    speculation: Speculation
    timelines: tuple[StepTimeline, ...]
    tables: Mapping[str, pd.DataFrame]

    @property
    def origin(self) -> str:
        """The calibration's name where the device is modelled, else empty."""
        return calibration_name(self.meta.calibration or "unnamed") if self.meta.modelled else ""


def gather_recording(recording: RecordingLike, name: str) -> RecordingView:
    """Run the analysis on every question of the page."""
    replayed = replays(recording)  # the timelines are built once for all questions
    configuration = recording.meta.configuration
    copies = gather_copies(replayed, configuration=configuration)
    answers = zip(copies.what_if, copies.checks, strict=True)
    return RecordingView(
        name=name, meta=recording.meta, calibration=recording.table("calibration"), phases=gather_phases(replayed),
        copies=copies, pinned=pinned_reuse(replayed), padding=padding(replayed),
        graph_memory=graph_memory(recording.table("calibration")), gaps=gaps(replayed),
        advice=advice(answers, host_waits(replayed), configuration),
        speculation=speculation(replayed), timelines=gather_timelines(replayed, copies.exposure.steps),
        tables={table: recording.table(table) for table in TABLES},
    )
