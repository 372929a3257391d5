"""How much of a capture the figures rest on, and what cannot be said from it, with the reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import ABSENT, BoolArray
from .lacks import NO_CALLS, Lacks, nameless_calls
from .launches import Launches
from .rows import CaptureRows


@dataclass(frozen=True, slots=True)
class Coverage:
    """A share of something that a figure rests on. `share` is null where `of` is 0."""

    what: str
    covered: int
    of: int
    share: float | None


@dataclass(frozen=True, slots=True)
class CannotSay:
    """A question that the capture does not answer."""

    question: str
    because: str


EVERYTHING = "whether everything is here"
_QUESTIONS = {
    "nsys": EVERYTHING, "the folder also holds": EVERYTHING,
    "the files name a base": "how the ranks lie to one another in time",
    "the files lie apart": "whether the files are the ranks of one run",
    "several processes of this file": "which calls launched some of the work",
}
"""How a note of an importer begins, and what it leaves open."""
_ABSENT = {
    "kernels": ("busy, idle and gaps of a device", "the capture has no kernels"),
    "copies": ("copies and what they were hidden under", "the capture has no memory copies"),
    "calls": ("queue delays, steps and phases of device work, blocking calls", "the capture has no calls of CUDA"),
    "ranges": ("phases told by ranges", "the capture has no ranges"),
}


def coverage(rows: CaptureRows, launches: Launches) -> tuple[Coverage, ...]:
    """What share of the device's work has a call, a step and a phase, and of the copies a kind of memory."""
    work, copies = launches.work, rows.copies
    linked, in_step, in_phase = launches.call >= 0, work.step != ABSENT, work.phase >= 0
    n = len(work)
    sided = np.isin(copies.direction, [rows.directions.index(own) for own in ("h2d", "d2h") if own in rows.directions])
    return (
        _share("device work with its call", linked, n),
        _share("copies with their call", launches.call[len(rows.device) :] >= 0, len(copies)),
        _share("device work in a step", in_step, n), _share("device work in a phase", in_phase, n),
        _share("copies between host and device with the host's kind of memory", _known_kind(rows)[sided],
               int(sided.sum())),
    )  # fmt: skip


def _share(what: str, covered: BoolArray, of: int) -> Coverage:
    count = int(np.count_nonzero(covered))
    return Coverage(what, count, of, count / of if of else None)


def _known_kind(rows: CaptureRows) -> BoolArray:
    copies = rows.copies
    unknown_source = np.array([own == "unknown" for own in (*rows.src_kinds, "unknown")])[copies.src_kind]
    unknown_target = np.array([own == "unknown" for own in (*rows.dst_kinds, "unknown")])[copies.dst_kind]
    return np.asarray(~(unknown_source | unknown_target), dtype=np.bool_)


def cannot_say(rows: CaptureRows, launches: Launches, lacks: Lacks, unseen: str | None) -> tuple[CannotSay, ...]:
    """Questions without an answer here: what the file lacks, and what the profiler says it lost."""
    found = [CannotSay(_ABSENT["kernels"][0], unseen)] if unseen is not None else []
    told = _told(rows, lacks)
    found += [CannotSay(*_ABSENT[name]) for name in _ABSENT if name in rows.absent and name not in told]
    if "copies" not in rows.absent:
        found.append(
            CannotSay("how much of a copy is exposed", "a capture does not record what reads what it brings")
        )
    if not len(rows.steps):
        found.append(CannotSay("figures by step", "no range marks steps, and no cycle of ranges repeats"))
    elif not len(rows.phase_rows):
        found.append(
            CannotSay("figures by phase", "no range of a known name tells phases, and the launches do not show them")
        )
    found += _lacking(rows, launches, lacks)
    found += _silent_processes(rows, launches)
    found += _skew(rows, launches)
    found += [CannotSay(question, reason) for reason, question in _noted(rows)]
    whole = rows.meta.configuration.get("graph_trace") == "graph" and launches.is_graph_launch.any()
    if whole or (rows.device.kind == 2).any():
        whole_graphs = "graphs were traced whole; capture with --cuda-graph-trace=node"
        found.append(CannotSay("which kernels ran inside graphs", whole_graphs))
    return tuple(dict.fromkeys(found))


_LACKING = {
    "calls": "what the calls did: graph launches, synchronising and blocking calls",
    "kernel_calls": "what launched the kernels: their queue delays, steps, phases and ranges",
    "replay_calls": "what launched the graph replays: their queue delays, steps, phases and ranges",
    "memset_calls": "what asked for the memsets: their queue delays, steps, phases and ranges",
    "copy_calls": "what asked for the copies: their queue delays, steps, phases and ranges",
    "places": "which calls lie in which range",
    "kernel_names": "what the kernels did, and which of them communicate",
    "copies": "copies, and what they were hidden under",
    "memsets": "memsets",
    "directions": "copies to and from a device",
}


def _lacking(rows: CaptureRows, launches: Launches, lacks: Lacks) -> list[CannotSay]:
    """What columns and tables the capture has not; of what has no calls or no copies at all it is said already."""
    found = [
        CannotSay(question, because)
        for name, question in _LACKING.items()
        if (because := getattr(lacks, name)) is not None and because != NO_CALLS and name not in rows.absent
    ]
    nameless = nameless_calls(rows, launches)
    if nameless and lacks.calls is None:
        found.append(CannotSay(f"what {nameless} calls did", "the capture does not have their names"))
    return found


def _told(rows: CaptureRows, lacks: Lacks) -> tuple[str, ...]:
    """What a capture with device work answers though it has none of it: replays of whole graphs stand for kernels, and
    calls none of which asked for copies say that there were none."""
    if not len(rows.work):
        return ()
    return ("kernels",) if lacks.copies else ("kernels", "copies")


def _noted(rows: CaptureRows) -> list[tuple[str, str]]:
    """(what the importer noted, the question that it leaves open)."""
    found = []
    for note in rows.meta.diagnostics:
        told = next((question for words, question in _QUESTIONS.items() if note.reason.startswith(words)), None)
        if told is None and ("left out" in note.reason or "truncated" in note.reason):
            told = EVERYTHING
        if told is not None:
            found.append((note.reason, told))
    return found


def _silent_processes(rows: CaptureRows, launches: Launches) -> list[CannotSay]:
    """Processes that called CUDA and of which no device work was recorded."""
    called = set(rows.host.process[launches.is_call].tolist()) - set(launches.work.process.tolist())
    names = sorted(str(rows.processes[place].pid) for place in called)
    return [
        CannotSay(f"what process {name} did on a device", "its calls were recorded, and no work of a device")
        for name in names
    ]


def _skew(rows: CaptureRows, launches: Launches) -> list[CannotSay]:
    """Device work that starts before its call: the clocks disagree, and its delay is no delay."""
    known = launches.call >= 0
    if not known.any():
        return []
    delay = launches.work.start[known] - rows.host.start[launches.call[known]]
    early = delay[delay < 0]
    if not len(early):
        return []
    because = f"they start up to {-int(early.min())} ns before their calls: the clocks of host and device disagree"
    return [CannotSay(f"queue delays of {len(early)} operations", because)]
