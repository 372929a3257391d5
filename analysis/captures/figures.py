"""All figures of a capture in one object, ready for a page, a table or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...instrumentation.recording.meta import RecordingMeta
from .copies import CopyFigures, HiddenFigures, copy_figures, hidden_figures
from .coverage import CannotSay, Coverage, cannot_say, coverage
from .devices import DeviceFigures, device_figures
from .gaps import GapFigures, gap_figures
from .gathering import gather
from .graphs import GraphFigures, graph_figures
from .lacks import Lacks, lacks_of
from .launches import launches_of
from .names import NameFigures, call_figures, kernel_figures
from .pageable import PageableFigures, pageable_figures
from .processes import ProcessFigures, process_figures
from .queueing import QueueFigures, queue_figures
from .ranges import RangeFigures, of_one_device, range_figures
from .rows import Tables
from .steps import phase_table, step_table
from .syncs import SyncFigures, sync_figures
from .unseen import lost_work, unseen_work


@dataclass(frozen=True, slots=True, eq=False)
class CaptureFigures:
    """What a report says of a capture. Every part says in its own module how it is defined.

    source       nsys or kineto; `facts` what the file says of itself (versions, graph trace mode, damages)
    steps_from   who marked the steps: vllm, sglang, trtllm, pytorch, stepscope, mapped, inferred; None without steps
    devices      busy and idle, empty where nothing ran on a device (then nothing about one can be said)
    syncs        None where nobody knows which calls waited
    lacks        what columns and tables the capture has not: the reasons of figures that are null
    steps        a row a step and device; phases: a row a process, device and phase
    """

    source: str
    facts: Mapping[str, Any]
    environment: Mapping[str, Any]
    steps_from: str | None
    devices: tuple[DeviceFigures, ...]
    copies: tuple[CopyFigures, ...]
    hidden: tuple[HiddenFigures, ...]
    pageable: PageableFigures
    queue: tuple[QueueFigures, ...]
    syncs: tuple[SyncFigures, ...] | None
    graphs: tuple[GraphFigures, ...]
    gaps: tuple[GapFigures, ...]
    steps: pd.DataFrame
    phases: pd.DataFrame
    ranges: tuple[RangeFigures, ...]
    kernels: tuple[NameFigures, ...]
    calls: tuple[NameFigures, ...]
    processes: tuple[ProcessFigures, ...]
    coverage: tuple[Coverage, ...]
    cannot_say: tuple[CannotSay, ...]
    lacks: Lacks


_NOT_FACTS = ("absent", "steps_from", "phase_maps", "index_building")


def capture_figures(tables: Tables, meta: RecordingMeta, whole: Tables | None = None) -> CaptureFigures:
    """`tables` by name: those of a `Capture` (Arrow), or the frames of the Recording that it became; or one device's
    part of them, with `Selection.whole` beside it, of which is asked what the capture lacks: calls that launched on
    other devices left no row in the part.
    """
    rows = gather(tables, meta)
    launches = launches_of(rows)
    everything = rows if whole is None else gather(whole, meta)
    calls = launches if whole is None else launches_of(everything)
    lacks = lacks_of(everything, calls)
    unseen, lost = unseen_work(everything, calls, lacks), lost_work(everything, calls, lacks)
    ranges = range_figures(rows, launches, lacks, lost)
    facts = {key: value for key, value in meta.configuration.items() if key not in _NOT_FACTS and value is not None}
    return CaptureFigures(
        source=meta.source, facts=facts, environment=meta.environment,
        steps_from=meta.configuration.get("steps_from"), devices=device_figures(rows, unseen, lacks),
        copies=copy_figures(rows, unseen), hidden=hidden_figures(rows, unseen), pageable=pageable_figures(rows, lacks),
        queue=queue_figures(rows, launches), syncs=sync_figures(rows, launches, lacks),
        graphs=graph_figures(rows, launches, lacks), gaps=gap_figures(rows, launches, unseen),
        steps=step_table(rows, launches, lacks, lost),
        phases=phase_table(rows, lost or lacks.work_calls), ranges=ranges if whole is None else of_one_device(ranges),
        kernels=kernel_figures(rows), calls=call_figures(rows, launches), processes=process_figures(rows, launches),
        coverage=coverage(rows, launches), cannot_say=cannot_say(rows, launches, lacks, unseen), lacks=lacks,
    )
