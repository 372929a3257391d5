"""Timelines of a capture: steps chosen by length, or the surroundings of the longest gap where no steps are marked.

A thread's ranges lie on rows by depth, its calls on a row of their own; each stream has a row, and one for copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...analysis.captures.figures import CaptureFigures
from ...analysis.columns import Columns
from ...analysis.tables import plain
from ...instrumentation.recording.convert import arrow_schema, to_frame
from .timeline import MAX_BARS, Bar, StepTimeline

_DEPTHS = 4
_LEAST_NS = 50_000


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a capture to look at. `step` None: not a step. pid and rank None: of whichever process."""

    why: str
    start_ns: int
    end_ns: int
    step: int | None = None
    pid: int | None = None
    rank: int | None = None


def capture_timelines(tables: Mapping[str, Any], figures: CaptureFigures) -> tuple[StepTimeline, ...]:
    """Timelines of the chosen windows; `tables` as `capture_figures` takes them."""
    found = []
    for window in _windows(figures):
        spans = _Rows(_part(tables, "spans", window), window, "lane", "kind", "name", "device")
        copies = _Rows(_part(tables, "copies", window), window, "lane", "direction", "src_kind", "dst_kind", "device")
        bars = [*_span_bars(spans), *_copy_bars(copies)]
        kept = sorted(bars, key=lambda bar: bar.start_ns - bar.end_ns)[:MAX_BARS]
        if kept:
            kept.sort(key=lambda bar: bar.start_ns)
            number, left_out = -1 if window.step is None else window.step, len(bars) - len(kept)
            line = StepTimeline(number, window.why, window.start_ns, window.end_ns, tuple(kept), None, left_out)
            found.append(line)
    return tuple(found)


def _windows(figures: CaptureFigures) -> Sequence[Window]:
    steps = figures.steps[figures.steps["start_ns"].notna() & figures.steps["end_ns"].notna()]
    if len(steps):
        return list(_chosen(steps))
    gap = max(
        ((own.gap_ns, own.start_ns) for device in figures.gaps for own in device.longest), default=None
    )  # fmt: skip
    if gap is None:
        return ()
    length, start = gap
    around = max(length, _LEAST_NS)
    return (Window("around the longest gap", start - around // 2, start + length + around // 2),)


def _chosen(steps: pd.DataFrame) -> Iterator[Window]:
    """The median step, the longest, and the one whose device idled most, each once."""
    length = (steps["end_ns"] - steps["start_ns"]).to_numpy(dtype="int64")
    idle = steps["idle_ns"].fillna(0).to_numpy(dtype="int64")
    middle = length.argsort(kind="stable")[(len(length) - 1) // 2]
    taken = set()
    for why, row in (("median", middle), ("longest", length.argmax()), ("most idle time", idle.argmax())):
        if row not in taken and (why != "most idle time" or idle[row]):
            taken.add(row)
            own = steps.iloc[int(row)]
            start, end = int(own["start_ns"]), int(own["end_ns"])
            # the device's work may come later than the step: with two steps in flight it does
            late = start + (plain(own["window_ns"]) or 0)
            yield Window(why, start, max(end, late), int(own["step"]), plain(own["pid"]), plain(own["rank"]))


def _part(tables: Mapping[str, Any], name: str, window: Window) -> Columns:
    """Rows that reach into the window, of the window's process."""
    table = tables[name]
    if isinstance(table, pa.Table):
        chosen = pc.and_(pc.greater(table["end_ns"], window.start_ns), pc.less(table["start_ns"], window.end_ns))
        for key in ("pid", "rank"):
            value = getattr(window, key)
            if value is not None:
                chosen = pc.and_(chosen, pc.equal(table[key], value))
        return Columns(to_frame(table.filter(chosen).cast(arrow_schema(name, in_sweep=False))))
    mask = (table["end_ns"] > window.start_ns) & (table["start_ns"] < window.end_ns)
    for key in ("pid", "rank"):
        if getattr(window, key) is not None:
            mask &= table[key] == getattr(window, key)
    return Columns(table[mask.fillna(False)])


class _Rows:
    """A table's rows one by one, as bars clipped to the window."""

    def __init__(self, rows: Columns, window: Window, *texts: str) -> None:
        self._window = window
        self._starts, self._ends = rows.ints("start_ns")[0].tolist(), rows.ints("end_ns")[0].tolist()
        self._steps, self._numbered = rows.ints("step")
        self._sizes, self._sized = rows.ints("size_bytes")
        self.depths = rows.ints("depth")[0].tolist()
        self._phases = rows.texts("phase")
        self.texts = list(zip(*(rows.texts(name) for name in texts), strict=True))

    def bar(self, i: int, row: str, role: str, name: str | None) -> Bar:
        """Row `i`; work of another step than the window's is not its own."""
        window, phase = self._window, self._phases[i]
        own = role not in ("kernel", "copy") or window.step is None
        own = own or (bool(self._numbered[i]) and int(self._steps[i]) == window.step)
        detail = [f"{int(self._sizes[i])} bytes"] if self._sized[i] else []
        detail += [f"phase {phase}"] if phase else []
        if not own:
            detail.append(f"of step {int(self._steps[i])}" if self._numbered[i] else "of no step")
        start, end = max(self._starts[i], window.start_ns), min(self._ends[i], window.end_ns)
        return Bar(row, role, name or "?", start, end, own, tuple(detail), phase or "")


def _span_bars(rows: _Rows) -> Iterator[Bar]:
    for i, (lane, kind, name, device) in enumerate(rows.texts):
        if lane is not None and not lane.startswith("host"):
            yield rows.bar(i, f"device {device}, stream {lane.removeprefix('gpu:')}", "kernel", name or kind)
        elif kind in ("range", "op"):
            depth = rows.depths[i]
            if depth < _DEPTHS:
                yield rows.bar(i, f"{lane} ranges{f', level {depth + 1}' if depth else ''}", "range", name)
        else:
            row = f"{lane} {'profiler' if kind == 'overhead' else 'calls'}"
            yield rows.bar(i, row, "wait" if kind == "sync" else "call", name)


def _copy_bars(rows: _Rows) -> Iterator[Bar]:
    for i, (lane, direction, src, dst, device) in enumerate(rows.texts):
        row = f"device {device}, stream {(lane or '?').removeprefix('gpu:')}, copies"
        yield rows.bar(i, row, "copy", f"{direction} {src} to {dst}")
