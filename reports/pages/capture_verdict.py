"""Section: what bound a captured program, and what to look at first."""

from __future__ import annotations

from ...analysis.captures.figures import CaptureFigures
from ...analysis.captures.ranges import RangeFigures
from ...analysis.captures.verdict import CaptureVerdict, Remedy, capture_verdict
from ..document import Block, Cell, Column, Facts, Missing, Quantity, Section, Words
from ..formatting import count, counted, duration, percent
from .capture_basis import why_not
from .cells import count_column, percent_column, records, table, us_column

TITLE = "Why it takes so long, and what to look at"
AGAIN = (
    "To learn more, capture again with CUDA's calls and kernels: perf capture -- CMD"
    " (that is nsys profile --trace=cuda,nvtx ...)."
)
MOST_RANGES = 12
APART = 0.05
"""So far a mean step lies from the median one before both are told."""
_BOUND = {
    "kernels": "Device-bound: the largest part of the devices' time has kernels in it",
    "copies": "Copy-bound: the largest part of the devices' time has nothing but copies in it",
    "late": "Host-bound: the largest part of the devices' time passes before the host asks for the next operation",
    "asked": "Idle with work asked for: the largest part of the devices' time passes between a call and its start",
    "unknown": "Idle for the largest part; whether the host was late cannot be said, without the calls behind the work",
}
_PARTS = {
    "kernels": "kernels", "copies": "copies and memsets alone", "late": "idle, not asked for yet",
    "asked": "idle, asked for", "unknown": "idle, calls not known",
}
_SHORT = {
    "late": "host between launches", "eager": "launches one by one", "waits": "calls that wait",
    "item": "waits like .item()",
}
_NOTE = (
    "At most: no remedy of that kind can save more. Device time is of the devices' windows, added up; bounds overlap"
    " and do not add up."
)


def verdict_section(figures: CaptureFigures) -> Section:
    """What bound it, in a sentence, and the remedies with their bounds; without device work the ranges of a step."""
    found = capture_verdict(figures)
    blocks: list[Block] = [Words(_lead(figures, found), emphasis=True)]
    if not figures.devices:
        blocks += [*_range_table(figures), Words(AGAIN)]
    elif found.remedies:
        blocks += _remedies(found)
    else:
        blocks.append(Words("Nothing that this page knows a remedy for takes 1 % of the devices' time."))
    unsaid = figures.lacks.calls or figures.lacks.work_calls
    if figures.devices and unsaid:
        blocks.append(Words(f"Whether the host could do better cannot be said: {unsaid}."))
    return Section("verdict", TITLE, tuple(blocks), brief=True, nav="Verdict")


def _lead(figures: CaptureFigures, found: CaptureVerdict) -> str:
    return " ".join(part for part in (_bound(figures, found), _step(found), _phases(figures)) if part)


def _bound(figures: CaptureFigures, found: CaptureVerdict) -> str:
    if not figures.devices:
        head = "Nothing" if figures.calls else "Host ranges only: nothing"
        return f"{head} can be said of a device, because {why_not(figures, 'busy', 'none worked')}."
    if found.parts is None or found.bound is None:
        why = next((own.unseen for own in figures.devices if own.unseen), "the windows are empty")
        return f"What bound it cannot be said: {why}."
    ranked = sorted(found.parts.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{_PARTS[name]} {percent(ns / found.window_ns)}" for name, ns in ranked if ns)
    return f"{_BOUND[found.bound]} ({parts} of {duration(found.window_ns)})."


def _step(found: CaptureVerdict) -> str:
    if found.step_p50_ns is None:
        return ""
    length = f"{duration(found.step_p50_ns)} (median of {count(found.steps)})"
    if found.step_is_period:
        return f"A step takes {length}{_on_average(found)}."
    return f"The host's range of a step lasts {length}; how often steps come cannot be said from so few."


def _on_average(found: CaptureVerdict) -> str:
    """The mean beside a median that it lies apart from: steps of several kinds, or such that lean on one another."""
    median_ns, mean_ns = found.step_p50_ns, found.step_mean_ns
    if not median_ns or mean_ns is None or abs(mean_ns / median_ns - 1) < APART:
        return ""
    return f"; on average {duration(mean_ns)}: they are not alike, or lean on one another"


def _phases(figures: CaptureFigures) -> str:
    """Host and device medians of the phases of the process that has most steps with them."""
    if figures.phases.empty:
        return ""
    known = [row for row in records(figures.phases) if row["host_p50_ns"] and row["phase"]]
    if not known:
        return ""
    pid, rank = max(known, key=lambda row: row["steps"])["pid"], max(known, key=lambda row: row["steps"])["rank"]
    mine = {row["phase"]: row for row in known if (row["pid"], row["rank"]) == (pid, rank)}
    parts = []
    for row in sorted(mine.values(), key=lambda row: -row["host_p50_ns"]):
        busy = f" (device {duration(row['busy_p50_ns'])})" if row["busy_p50_ns"] else ""
        parts.append(f"{row['phase']} {duration(row['host_p50_ns'])}{busy}")
    told = ", ".join(dict.fromkeys(row["origin"] for row in mine.values() if row["origin"]))
    return f"Host time by phase{f' ({told})' if told else ''}, medians: {', '.join(parts)}."


def _remedies(found: CaptureVerdict) -> tuple[Block, ...]:
    columns = (
        Column("what to look at"), us_column("at most"), percent_column("of the devices' time")
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            _words(own), Quantity(own.at_most_ns, "ns"),
            Quantity(own.at_most_ns / found.window_ns, "fraction") if own.of_device else "host time",
        )
        for own in found.remedies
    ]  # fmt: skip
    listed = table("What to look at, by what it could give", columns, rows, note=_NOTE)
    places = tuple(
        (_SHORT[own.code], "; ".join(f"{name}, {duration(ns)}" for name, ns in own.places))
        for own in found.remedies if own.places
    )
    return (listed, *((Facts("Where most of it lies", places),) if places else ()))


def _words(own: Remedy) -> str:
    number = own.count or 0
    return {
        "late": "the host between its launches: do less there, or let it run a step ahead",
        "eager": f"{counted(number, 'kernel')} launched one by one: replay CUDA graphs",
        "copies": f"{counted(number, 'copy', 'copies')} to the device beside no kernel: earlier, elsewhere, or less",
        "waits": "the host inside calls that wait: wait later, copy asynchronously and from pinned memory",
        "pageable": f"{counted(number, 'asynchronous copy', 'asynchronous copies')} of pageable memory: pin it",
        "item": f"{counted(number, 'wait')} like .item(): keep the value on the device",
    }[own.code]


def _range_table(figures: CaptureFigures) -> tuple[Block, ...]:
    """Ranges by their total, and how much of the steps' time they take: children count in their parents too."""
    ranges = [own for own in figures.ranges if own.kind == "range"][:MOST_RANGES]
    if not ranges:
        return ()
    columns = (
        Column("range"), count_column("uses"), us_column("mean"), us_column("shortest"), us_column("longest"),
        percent_column("of the steps' time"),
    )  # fmt: skip
    rows = [_range_row(own) for own in sorted(ranges, key=lambda own: -own.total_ns)]
    note = "Ranges with the largest totals; what lies in a range counts in the range around it too."
    return (table("Where the host's time goes", columns, rows, note=note),)


def _range_row(own: RangeFigures) -> tuple[Cell, ...]:
    share: Cell = Missing("the process has no steps")
    if own.in_steps_ns is not None and own.steps_ns:
        share = Quantity(own.in_steps_ns / own.steps_ns, "fraction")
    return (
        own.name, Quantity(own.uses, "count"), Quantity(own.total_ns / own.uses, "ns"), Quantity(own.min_ns, "ns"),
        Quantity(own.max_ns, "ns"), share,
    )  # fmt: skip
