"""Section: the four questions of the house, answered in words, each with the figures that it rests on."""

from __future__ import annotations

from typing import Any

from ...analysis.phases import CLOSING_LIMIT
from ...analysis.speculation import Speculation
from ..document import Answer, Cell, Missing, Section
from ..formatting import count, duration, percent, significant
from ..views.phases import PhaseView
from ..views.recording import RecordingView
from . import buffers, copies, padding
from .cells import number, records
from .gaps import bound_words
from .phases import busy_unseen, largest_range_words

_SKEWED = 1.25
"""A mean period this many times the median is worth a sentence: medians and means then tell different stories."""

QUESTIONS = (
    "Where does a step's time go?",
    "How much of the block-table copy is hidden, and what is exposed?",
    "Are pinned buffers really pinned, reused, and never overwritten under a copy?",
    "What does graph padding cost against what replay saves?",
)


def headline_section(view: RecordingView) -> Section:
    """One answer a question; an answer that could not be measured says why."""
    where = f"{phase_words(view.phases)} {bound_words(view.gaps)}"
    pinned = buffers.headline_words(view.pinned, view.meta.has_device)
    answers = (
        answer(0, where, (*_phase_figures(view), *_accepted(view.speculation)), "#phases"),
        answer(1, copies.headline_words(view.copies), copies.headline_figures(view.copies), "#copies"),
        answer(2, pinned, buffers.headline_figures(view.pinned), "#buffers"),
        answer(3, padding.headline_words(view.padding), padding.headline_figures(view.padding), "#padding"),
    )
    return Section("headline", "Four questions", answers, brief=True)


def _accepted(found: Speculation) -> tuple[tuple[str, Cell], ...]:
    """By how many tokens a request with drafts goes on in a step: a period is worth so many tokens more."""
    length = found.accepted_length
    return () if length is None else (("accepted length, mean", f"{significant(length)} tokens"),)


def answer(question: int, words: str, figures: tuple[tuple[str, Cell], ...], href: str) -> Answer:
    """An answer card. Where not one of its figures was measured, the sentence says why and they are left out."""
    known = any(not isinstance(value, Missing) for _, value in figures)
    return Answer(QUESTIONS[question], words, figures if known else (), href)


def phase_words(view: PhaseView) -> str:
    """The answer to the first question."""
    known = [row for row in records(view.summary.host) if row["p50_ns"] is not None]
    if not any(row["p50_ns"] for row in known):
        return "Not measured: no counted step has a phase with a host time."
    parts = ", ".join(map(_phase_words, sorted(known, key=lambda row: -row["p50_ns"])))
    period = "" if view.step_ns is None else f"A step takes {duration(view.step_ns)} ({view.step_words}). "
    head = f"{period}Median host time of a step, and in brackets the share of the sum of all periods: {parts}."
    beside = f"{_range_words(view)}{_overlap_words(view)}{_tail_words(view)}"
    return f"{head}{_open_words(view)}{_kinds_words(view, known)}{_ragged_words(known)}{beside}"


def _open_words(view: PhaseView) -> str:
    """What phases that do not close say of a step is not where its time goes."""
    covered = view.summary.covered
    if covered is None or abs(covered - 1) <= CLOSING_LIMIT:
        return ""
    if covered < 1:
        return f" The other {percent(1 - covered)} of the time lies in no phase."
    return f" Together that is {percent(covered)} of the time: phases nest, which they must not, and count twice."


def _kinds_words(view: PhaseView, known: list[dict[str, Any]]) -> str:
    """Why medians do not add up where the phases of each step do, and steps are of several kinds."""
    covered, period = view.summary.covered, view.period_p50_ns
    closes = covered is not None and abs(covered - 1) <= CLOSING_LIMIT
    if len(view.kinds) < 2 or not closes or not period:
        return ""
    together = sum(row["p50_ns"] for row in known) / period
    if abs(together - 1) <= CLOSING_LIMIT:
        return ""
    kinds = ", ".join(f"{count(steps)} {kind}" for kind, steps in view.kinds.items())
    return (
        f" These medians add up to {percent(together)} of the median period: counted steps are of several kinds"
        f" ({kinds}), and the median of one phase lies in other steps than that of another."
    )


def _ragged_words(known: list[dict[str, Any]]) -> str:
    """Medians and shares that rank the phases differently look like a contradiction unless somebody says why."""
    ranked = sorted((row for row in known if row["share"] is not None), key=lambda row: -row["p50_ns"])
    shares = [row["share"] for row in ranked]
    if shares == sorted(shares, reverse=True):
        return ""
    return " Slow steps weigh in the shares and not in the medians, so the two rank the phases differently."


def _phase_words(row: dict[str, Any]) -> str:
    """The share is of what all counted steps took together: medians of a ragged run don't add up to its period."""
    share = "" if row["share"] is None else f" ({percent(row['share'])})"
    return f"{row['name'].replace('_', ' ')} {duration(row['p50_ns'])}{share}"


def _range_words(view: PhaseView) -> str:
    largest = largest_range_words(view)
    return f" The largest part of preprocess is {largest}." if largest else ""


def _overlap_words(view: PhaseView) -> str:
    latency, period = view.latency_p50_ns, view.step_ns
    if latency is None or period is None or latency <= period:
        return ""
    return f" Steps overlap: a step's tokens are with the host {duration(latency)} after it began (median)."


def _tail_words(view: PhaseView) -> str:
    mean, usual = view.period_mean_ns, view.step_ns
    if mean is None or not usual or mean < _SKEWED * usual:
        return ""
    return f" A few slow steps pull the mean period up to {duration(mean)}."


def _phase_figures(view: RecordingView) -> tuple[tuple[str, Cell], ...]:
    own, why, unseen = view.phases, "no counted step has a period", busy_unseen(view.meta)
    spans = {(row["name"], row["figure"]): row["p50_ns"] for row in records(own.summary.device)}
    return (
        ("period, p50", number(own.period_p50_ns, "ns", why)), ("period, p99", number(own.period_p99_ns, "ns", why)),
        ("preprocess, mean", number(own.mean_ns["preprocess"], "ns", "no counted step has the phase")),
        ("device busy in forward, p50", number(spans.get(("forward", "busy_ns")), "ns", unseen)),
    )
