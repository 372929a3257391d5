"""The timeline of chosen steps: what lay on the host, on the copy lanes and on the compute lanes, in exact ns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...analysis.columns import BoolArray, Columns, LongArray
from ...analysis.tables import Process

MAX_BARS = 600
"""Bars of one step at most; beyond that the shortest are left out and counted."""

_HOST_ROWS = {"phase": "host phases", "range": "host ranges", "wait": "host waits", "sync": "host waits"}


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval in a row of the timeline. Times are the Recording's own, in ns of its clock.

    role    phase, range, call, wait, copy or kernel: what kind of thing it is
    own     False for device work of another step that reaches into the window
    detail  lines for the hover text
    phase   the phase that a range or kernel belongs to, "" for none: of a capture's as it was attributed, of a
            recording's kernels the one in which the host launched it
    """

    row: str
    role: str
    name: str
    start_ns: int
    end_ns: int
    own: bool = True
    detail: tuple[str, ...] = ()
    phase: str = ""


@dataclass(frozen=True, slots=True)
class StepTimeline:
    """One step. `start_ns` is its first instant.

    overlaps  intervals of copy ∩ build_indices; None where no copy of the buffer has device times in the step
    """

    step: int
    why: str
    start_ns: int
    end_ns: int
    bars: tuple[Bar, ...]
    overlaps: tuple[tuple[int, int], ...] | None = None
    num_left_out: int = 0

    @property
    def rows(self) -> tuple[str, ...]:
        """Row names from top to bottom: the host first, then copies, then the compute lanes."""
        order = {"phase": 0, "range": 1, "call": 2, "wait": 3, "copy": 4, "kernel": 5}
        first = {bar.row: order[bar.role] for bar in reversed(self.bars)}
        return tuple(sorted(first, key=lambda row: (first[row], row)))


def step_timeline(process: Process, step: int, why: str, overlap_buffer: str = "block_table") -> StepTimeline | None:
    """The timeline of `step`, or None where its start or end was not recorded.

    The window begins with the step and ends with it or with the last device work that it caused.
    """
    start_ns, end_ns = _bounds(process.rows("steps"), step)
    if start_ns is None or end_ns is None:
        return None
    bars = [bar for bar in _all_bars(process, step, start_ns, end_ns) if bar.end_ns > bar.start_ns]
    end_ns = max([end_ns, *(bar.end_ns for bar in bars if bar.own)])
    kept = sorted(bars, key=lambda bar: bar.end_ns - bar.start_ns, reverse=True)[:MAX_BARS]
    kept.sort(key=lambda bar: bar.start_ns)
    copied = any(bar.role == "copy" and bar.own and bar.name == overlap_buffer for bar in bars)
    overlaps = tuple(_overlaps(bars, overlap_buffer)) if copied else None
    return StepTimeline(step, why, start_ns, end_ns, tuple(kept), overlaps, len(bars) - len(kept))


def _bounds(steps: Columns, step: int) -> tuple[int | None, int | None]:
    numbers, valid = steps.ints("step")
    rows = np.flatnonzero(valid & (numbers == step))
    if not len(rows):
        return None, None
    (start, start_known), (end, end_known) = steps.ints("start_ns"), steps.ints("end_ns")
    row = rows[0]
    return (int(start[row]) if start_known[row] else None), (int(end[row]) if end_known[row] else None)


def _all_bars(process: Process, step: int, start_ns: int, end_ns: int) -> Iterator[Bar]:
    spans = process.rows("spans")
    yield from _host_bars(_of_step(spans, step))
    yield from _wait_bars(_of_step(process.rows("waits"), step))
    copies = process.rows("copies")
    yield from _enqueue_bars(_of_step(copies, step))
    yield from _copy_bars(_in_window(copies, step, start_ns, end_ns), step)
    work = _in_window(spans, step, start_ns, end_ns)
    yield from _kernel_bars(work, step, _launched_in(spans, work))


def _of_step(rows: Columns, step: int) -> Columns:
    numbers, valid = rows.ints("step")
    return rows[valid & (numbers == step)]


def _in_window(rows: Columns, step: int, start_ns: int, end_ns: int) -> Columns:
    """Rows of the step, and rows of other steps that reach into its time."""
    (numbers, numbered), (start, started), (end, ended) = (rows.ints(n) for n in ("step", "start_ns", "end_ns"))
    inside = started & ended & (end > start_ns) & (start < end_ns)
    return rows[(numbered & (numbers == step)) | inside]


def _timed(rows: Columns, start: str, end: str) -> tuple[Columns, LongArray, LongArray]:
    """Rows whose two times are both known, and the times."""
    (starts, started), (ends, ended) = rows.ints(start), rows.ints(end)
    known: BoolArray = started & ended
    return rows[known], starts[known], ends[known]


def _host_bars(rows: Columns) -> Iterator[Bar]:
    rows, starts, ends = _timed(rows, "start_ns", "end_ns")
    depths, _ = rows.ints("depth")
    columns = zip(rows.texts("lane"), rows.texts("kind"), rows.texts("name"), starts, ends, depths, strict=True)
    for lane, kind, name, start, end, depth in columns:
        if lane is None or not lane.startswith("host"):
            continue
        # The phases are depth 0: a range two levels down gets a row of its own, so that bars never hide each other.
        row = _HOST_ROWS.get(kind or "", "host calls") + (" (nested)" if kind == "range" and depth > 1 else "")
        role = {"phase": "phase", "range": "range", "wait": "wait", "sync": "wait"}.get(kind or "", "call")
        yield Bar(row, role, name or "?", int(start), int(end), detail=(f"lane {lane}", f"kind {kind}"))


def _wait_bars(rows: Columns) -> Iterator[Bar]:
    rows, starts, ends = _timed(rows, "start_ns", "end_ns")
    for lane, reason, start, end in zip(rows.texts("lane"), rows.texts("reason"), starts, ends, strict=True):
        yield Bar("host waits", "wait", f"wait: {reason}", int(start), int(end), detail=(f"lane {lane}",))


def _enqueue_bars(rows: Columns) -> Iterator[Bar]:
    rows, starts, ends = _timed(rows, "enqueue_start_ns", "enqueue_end_ns")
    for buffer, start, end in zip(rows.texts("buffer"), starts, ends, strict=True):
        yield Bar("host calls", "call", f"enqueue {buffer}", int(start), int(end))


def _copy_bars(rows: Columns, step: int) -> Iterator[Bar]:
    rows, starts, ends = _timed(rows, "start_ns", "end_ns")
    sizes, sized = rows.ints("size_bytes")
    numbers, numbered = rows.ints("step")
    names = zip(rows.texts("buffer"), rows.texts("direction"), rows.texts("lane"), strict=True)
    for i, (buffer, direction, lane) in enumerate(names):
        own = bool(numbered[i]) and int(numbers[i]) == step
        size = f"{int(sizes[i])} bytes" if sized[i] else "size not measured"
        detail: tuple[str, ...] = (f"{direction} on {lane}", size)
        if not own:
            detail += (f"of step {int(numbers[i])}" if numbered[i] else "of no step",)
        yield Bar(f"copies {lane}", "copy", buffer or "copy", int(starts[i]), int(ends[i]), own, detail)


def _launched_in(spans: Columns, rows: Columns) -> dict[int, str]:
    """Correlation -> the phase in which the host made the call for it, for those of `rows` whose call is in one."""
    ids, numbered = rows.ints("correlation")
    calls = spans[spans.matches("kind", "launch")]
    called, known = calls.ints("correlation")
    calls = calls[known & np.isin(called, ids[numbered])]
    phases, begins, ends = _timed(spans[spans.matches("kind", "phase")], "start_ns", "end_ns")
    order, names = np.argsort(begins, kind="stable"), phases.texts("name")
    begins, ends = begins[order], ends[order]
    found = {}
    for correlation, at in zip(calls.ints("correlation")[0].tolist(), calls.ints("start_ns")[0].tolist(), strict=True):
        place = int(np.searchsorted(begins, at, side="right")) - 1
        if place >= 0 and at < ends[place]:
            found[correlation] = names[order[place]] or ""
    return found


def _kernel_bars(rows: Columns, step: int, phases: Mapping[int, str]) -> Iterator[Bar]:
    rows, starts, ends = _timed(rows, "start_ns", "end_ns")
    (numbers, numbered), (ids, called) = rows.ints("step"), rows.ints("correlation")
    names = zip(rows.texts("lane"), rows.texts("kind"), rows.texts("name"), strict=True)
    for i, (lane, kind, name) in enumerate(names):
        if lane is None or lane.startswith("host"):
            continue
        own = bool(numbered[i]) and int(numbers[i]) == step
        detail: tuple[str, ...] = (f"{kind} on {lane}",)
        if not own:
            detail += (f"of step {int(numbers[i])}" if numbered[i] else "of no step",)
        phase = phases.get(int(ids[i]), "") if called[i] else ""
        yield Bar(f"compute {lane}", "kernel", name or "?", int(starts[i]), int(ends[i]), own, detail, phase)


def _overlaps(bars: list[Bar], buffer: str) -> Iterator[tuple[int, int]]:
    """copy ∩ build_indices of the step itself, interval by interval."""
    copies = [b for b in bars if b.role == "copy" and b.own and b.name == buffer]
    builds = [b for b in bars if b.role == "range" and b.name == "build_indices"]
    for copy in copies:
        for build in builds:
            start_ns, end_ns = max(copy.start_ns, build.start_ns), min(copy.end_ns, build.end_ns)
            if end_ns > start_ns:
                yield start_ns, end_ns
