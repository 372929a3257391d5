"""Section: what binds the step and what would shorten it, before everything else."""

from __future__ import annotations

from typing import Any

from ...analysis.advice import IN_FLIGHT, LEAST_SHARE
from ...analysis.tables import flags, texts
from ...analysis.what_if_more import DEEPER_RING, GRAPHS_ON
from ..document import Block, Column, Facts, Quantity, Section, Words
from ..formatting import count, duration, percent
from ..views.recording import RecordingView
from .cells import count_column, percent_column, records, table, us_column
from .phases import busy_unseen, largest_range_words

TITLE = "Why a step takes so long, and what to try"
_BOUND = {
    "host": "the device ran dry before the forward and waited for the host",
    "device": "the device had work at all times",
    "copy": "the forward waited for a copy of another queue",
    "event": "the forward waited for an operation of another queue",
}
_DO = {
    GRAPHS_ON.name: "replay the forward as a CUDA graph (graph_mode: full)",
    DEEPER_RING.name: "give the staging ring more slots (ring_slots)",
    IN_FLIGHT: "keep two steps in flight, so that the host works meanwhile (token_handoff: async_auto)",
}
_OF_A_GPU = {
    True: "what binds a step on a GPU, --device sim models and --device cuda measures",
    False: "device times take marks on a stream of the engine (docs/probe.md)",
}
"""Where the device's side is to be had, by whether our runner made the recording."""
_CHECKS = "How to measure each (RECORDING: this recording or its run's folder; --param repeats=5 gives intervals)"
_NOTE = (
    "Predicted: by replay of the recorded steps with that one thing changed. At most: what no change of that kind can"
    " exceed; it may save nothing. Means; savings overlap and do not add up."
)


def verdict_section(view: RecordingView) -> Section:
    """A sentence on what binds the step, what must be mended first, and the changes worth trying by what they save."""
    blocks: list[Block] = [Words(f"{_bound_words(view)} {_step_words(view)}".strip(), emphasis=True)]
    blocks += [Words(words, emphasis=True) for words in _first(view)]
    rows = [
        (
            _do(own.change, view), Quantity(own.saved_ns, "ns"), Quantity(own.share, "fraction"), own.basis,
            Quantity(own.steps, "count"),
        )
        for own in view.advice
    ]  # fmt: skip
    if rows:
        columns = (
            Column("change"), us_column("saves a step"), percent_column("of the period"), Column("basis"),
            count_column("steps"),
        )
        blocks.append(table("What to try, by what it saves", columns, rows, view.origin, _NOTE))
        blocks.append(Facts(_CHECKS, tuple((own.change, own.check) for own in view.advice)))
    else:
        blocks.append(Words(_nothing(view)))
    return Section("verdict", TITLE, tuple(blocks), brief=True, nav="Verdict")


def _bound_words(view: RecordingView) -> str:
    gaps = view.gaps
    if not view.meta.has_device:
        return f"On device cpu only the host is measured: {_OF_A_GPU[view.meta.source == 'lab']}."
    if gaps.bound is None:
        return f"What bound the steps was not measured: {gaps.reason}."
    judged = sum(one is not None for one in texts(gaps.steps[flags(gaps.steps, "counted", null=False)], "bound"))
    share = gaps.shares.get(gaps.bound)
    if share is None:
        mixture = ", ".join(f"{bound} {percent(part)}" for bound, part in gaps.shares.items())
        return f"No single bound: {mixture} of {count(judged)} counted steps."
    bound, of = gaps.bound, f"{percent(share)} of {count(judged)} counted steps"
    work = _device_share(view)
    if bound == "host" and work is not None and work >= _MOSTLY:
        return f"Mostly device work, {percent(work)} of a step; in {of} {_BOUND[bound]}."
    said = [f"{bound.capitalize()}-bound: in {of} {_BOUND[bound]}"]
    if bound in ("host", "device"):
        said.append(_filled_words(view, work))
    if bound == "device" and not any(own.change.startswith("preprocess") for own in view.advice):
        said.append("a faster host gains little")
    return f"{'; '.join(said)}."


def _filled_words(view: RecordingView, work: float | None) -> str:
    """Spans between events hold the waits as well, so they are no device work."""
    if work is not None:
        return f"device work fills {percent(work)} of a step"
    why = busy_unseen(view.meta) if view.phases.step_ns else "no counted step has a period"
    return f"how much of a step device work fills was not measured ({why})"


_MOSTLY = 0.5
"""From this share of a step on, the device's work is what a step takes, whoever it waits for before a forward."""


def _device_share(view: RecordingView) -> float | None:
    """Device work of all phases in parts of a step, by medians; None where nobody saw the work itself."""
    busy = [row["p50_ns"] for row in records(view.phases.summary.device) if row["figure"] == "busy_ns"]
    step = view.phases.step_ns
    if not step or not busy or None in busy:
        return None
    return min(1.0, float(sum(busy)) / float(step))


def _step_words(view: RecordingView) -> str:
    period = view.phases.step_ns
    if period is None:
        return ""
    host = [row for row in records(view.phases.summary.host) if row["p50_ns"]]
    largest = max(host, key=lambda row: row["p50_ns"], default=None)
    most = f"; the host's largest part, waits included, is {_phase(largest)}" if largest else ""
    device = [row for row in records(view.phases.summary.device) if row["figure"] == "busy_ns" and row["p50_ns"]]
    busy = ", ".join(f"{row['name']} {duration(row['p50_ns'])}" for row in device)
    return f"A step takes {duration(period)}{most}{f'; device work: {busy}' if busy else ''} (medians)."


def _phase(row: dict[str, Any]) -> str:
    return f"{row['name'].replace('_', ' ')}, {duration(row['p50_ns'])}"


def _first(view: RecordingView) -> list[str]:
    """What makes results wrong, or asynchronous copies synchronous, before any time is saved."""
    buffers = list(records(view.pinned))
    observed, possible, fake = (
        [str(row["buffer"]) for row in buffers if row[name]]
        for name in ("hazards_observed", "hazards_possible", "async_pageable")
    )
    found = []
    if observed or possible:
        verb = "were overwritten" if observed else "could be overwritten"
        names = ", ".join(observed or possible)
        found.append(f"First mend what is wrong: slots of {names} {verb} while their copy was in flight.")
    pageable = dict.fromkeys((*fake, *(str(row["buffer"]) for row in buffers if row["memory"] == "pageable")))
    if pageable and view.meta.has_device:
        found.append(
            f"Pin the host memory of {', '.join(pageable)}: it is pageable, so the host waits inside each copy's call"
            " (staging: pinned_ring)."
        )
    return found


def _do(change: str, view: RecordingView) -> str:
    if change in _DO:
        return _DO[change]
    if change.endswith(" free"):
        return f"hide or shrink {change.removesuffix(' free').replace('copy of', 'the copy of')}"
    if change.startswith("preprocess"):
        largest = largest_range_words(view.phases)
        where = f" (its largest range: {largest})" if largest else ""
        return f"make the host's preparation 30 % cheaper{where}"
    return change


def _nothing(view: RecordingView) -> str:
    if not view.meta.has_device:
        return "What a change would save is not predicted: that takes a device's operations."
    unknown = [answer for answer in view.copies.what_if if answer.saved_ns is None]
    if len(unknown) == len(view.copies.what_if):
        return f"What a change would save cannot be predicted: {unknown[0].reason}."
    return f"No change that the replay can predict saves {percent(LEAST_SHARE)} of a step."
