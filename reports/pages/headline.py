"""Section: the four questions of the house, answered in words, each with the figures that it rests on."""

from __future__ import annotations

from ..document import Answer, Cell, Section
from ..formatting import duration, percent
from ..views.phases import PhaseView
from ..views.recording import RecordingView
from . import buffers, copies, padding
from .cells import number, records
from .gaps import bound_words

QUESTIONS = (
    "Where does a step's time go?",
    "How much of the block-table copy is hidden, and what is exposed?",
    "Are pinned buffers really pinned, reused, and never overwritten under a copy?",
    "What does graph padding cost against what replay saves?",
)


def headline_section(view: RecordingView) -> Section:
    """One answer a question; an answer that could not be measured says why."""
    where = f"{phase_words(view.phases)} {bound_words(view.gaps)}"
    answers = (
        Answer(QUESTIONS[0], where, _phase_figures(view.phases), "#phases"),
        Answer(QUESTIONS[1], copies.headline_words(view.copies), copies.headline_figures(view.copies), "#copies"),
        Answer(QUESTIONS[2], buffers.headline_words(view.pinned), buffers.headline_figures(view.pinned), "#buffers"),
        Answer(QUESTIONS[3], padding.headline_words(view.padding), padding.headline_figures(view.padding), "#padding"),
    )
    return Section("headline", "Four questions", answers, brief=True)


def phase_words(view: PhaseView) -> str:
    """The answer to the first question."""
    known = {name: float(value) for name, value in view.mean_ns.items() if value is not None}
    whole = sum(known.values())
    if not whole:
        return "Not measured: no counted step has a phase with a host time."
    ordered = sorted(known.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{name.replace('_', ' ')} {percent(value / whole)}" for name, value in ordered)
    ranges = [row for row in records(view.summary.ranges) if row["share"]]
    largest = max(ranges, key=lambda row: row["share"], default=None)
    tail = f" Inside it {largest['name']} is the largest part." if largest and ordered[0][0] == "preprocess" else ""
    period = "" if view.period_p50_ns is None else f"A step takes {duration(view.period_p50_ns)} (median period). "
    return f"{period}Host time: {parts}.{tail}"


def _phase_figures(view: PhaseView) -> tuple[tuple[str, Cell], ...]:
    why, unseen = "no counted step has a period", "no profiler and no model saw it"
    spans = {(row["name"], row["figure"]): row["p50_ns"] for row in records(view.summary.device)}
    return (
        ("period, p50", number(view.period_p50_ns, "ns", why)), ("period, p99", number(view.period_p99_ns, "ns", why)),
        ("preprocess, mean", number(view.mean_ns["preprocess"], "ns", "no counted step has the phase")),
        ("device busy in forward, p50", number(spans.get(("forward", "busy_ns")), "ns", unseen)),
    )
