"""The page of one recording."""

from __future__ import annotations

import pandas as pd

from ...instrumentation.recording.meta import RecordingMeta
from ..document import Document, Section, Words
from ..formatting import count, duration
from ..views.recording import RecordingView
from .buffers import buffers_section
from .copies import copies_section
from .diagnostics import diagnostics_section
from .dispatch import dispatch_section
from .environment import calibration_facts, environment_section
from .gaps import gaps_section
from .headline import headline_section
from .padding import padding_section
from .phases import phases_section
from .speculation import speculation_sections
from .timeline import timeline_section
from .verdict import verdict_section


def recording_document(view: RecordingView) -> Document:
    """All sections in the order of reading: the verdict, answers, evidence, where it comes from, what is missing."""
    origin, meta = view.origin, view.meta
    phase_reasons = {note.column: note.reason for note in meta.diagnostics if note.table == "phases"}
    phase_reasons |= {f"steps.{note.column}": note.reason for note in meta.diagnostics if note.table == "steps"}
    sections = (
        *_lacking(meta),
        verdict_section(view),
        headline_section(view),
        phases_section(view.phases, origin, phase_reasons),
        timeline_section(view.timelines, origin, "the recording holds no step with a start and an end"),
        copies_section(view.copies, origin),
        buffers_section(view.pinned, origin, meta.has_device),
        padding_section(view.padding, origin),
        *speculation_sections(view.speculation, origin),
        dispatch_section(view.padding, view.graph_memory, origin),
        gaps_section(view.gaps, origin),
        environment_section(meta, view.calibration, view.phases.num_steps),
        diagnostics_section(meta, view.tables),
    )
    return Document(view.name, _subtitle(view), sections, origin, notice(meta, view.calibration))


def _lacking(meta: RecordingMeta) -> tuple[Section, ...]:
    """Before all figures, where the recording is a part of what ran: that it is, and why."""
    blocks = tuple(Words(f"{reason[0].upper()}{reason[1:]}.", emphasis=True) for reason in meta.lacks)
    return (Section("lacking", "What this recording lacks", blocks, brief=True, nav="Lacking"),) if blocks else ()


def _subtitle(view: RecordingView) -> str:
    parts = [f"device {view.meta.device}", f"{count(view.phases.num_steps)} steps"]
    if view.phases.step_ns is not None:
        parts.append(f"{view.phases.step_words} {duration(view.phases.step_ns)}")
    return ", ".join((*parts, f"recorded {view.meta.created}"))


def notice(meta: RecordingMeta, calibration: pd.DataFrame) -> str:
    """What "modelled" means for this page; empty for a measured one."""
    if not meta.modelled:
        return ""
    facts = calibration_facts(calibration)
    labels = (("gpu", ""), ("driver", "driver "), ("date", "measured "))
    known = meta.calibration or "without a name"
    machine = ", ".join(f"{label}{facts[n]}" for n, label in labels if n in facts and facts[n] not in known)
    host = "declared" if any(clock.kind == "declared" for clock in meta.clocks) else "measured on this machine"
    return (
        f"Device times come from the queue model with costs of the calibration {known}"
        f"{f' ({machine})' if machine else ''}; host times are {host}. Compare this with nothing but its own kind."
    )
