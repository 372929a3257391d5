"""The trace events of a Recording, written in order of time.

Times are microseconds since the first thing that happened, with three decimals: exact, and small enough for readers
that keep them as float64. `otherData.origin_ns` is that moment on the recording's own clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ...analysis.columns import Columns
from ...analysis.tables import Process, processes
from ..views.source import RecordingLike
from .counters import Count, counts_of_sensors, counts_of_steps
from .flows import Arrow, arrows
from .slices import Drawn, Slice, drawn_of
from .tracks import Track, Tracks, place

_SLICE, _ARROW, _COUNT = range(3)


def perfetto_json(recording: RecordingLike) -> str:
    """All of `recording` in the Chrome trace event format, one event a line; ends with a newline."""
    writer = _Writer(recording)
    lines = ",\n".join([*writer.metadata(), *writer.ordered()])
    other = json.dumps(writer.about(), ensure_ascii=True, sort_keys=True)
    return f'{{"displayTimeUnit": "ns",\n"otherData": {other},\n"traceEvents": [\n{lines}\n]}}\n'


class _Writer:
    """The events of one recording, once its processes are laid out on tracks."""

    def __init__(self, recording: RecordingLike) -> None:
        self._meta = recording.meta
        self.tracks = Tracks()
        self._events: list[tuple[int, int, int, str]] = []
        self._untimed: dict[str, int] = {}
        found = processes(recording)
        drawn = [drawn_of(process) for process in found]
        sensors = list(counts_of_sensors(Columns(recording.table("telemetry"))))
        counts = [list(counts_of_steps(process.rows("steps"))) for process in found]
        self._origin_ns = min(_moments(drawn, [*counts, sensors]), default=0)
        self._flow = 0
        for process, own, counted in zip(found, drawn, counts, strict=True):
            self._process(_name(process), own, counted)
        if sensors:
            self._counts(self.tracks.add_group("GPU sensors"), sensors)

    def _process(self, name: str, drawn: Drawn, counts: list[Count]) -> None:
        placed = place(drawn.slices, name, self.tracks)
        for track, one in placed:
            self._slice(track, one)
        for arrow in arrows(placed):
            self._arrow(arrow)
        if counts:
            self._counts(placed[0][0].pid if placed else self.tracks.add_group(name), counts)
        for table, number in drawn.untimed.items():
            self._untimed[table] = self._untimed.get(table, 0) + number

    def _slice(self, track: Track, one: Slice) -> None:
        fields = {"ph": "X", "name": one.name, "cat": one.cat, "pid": track.pid, "tid": track.tid}
        args = {"args": dict(one.args)} if one.args else {}
        self._add(one.start_ns, _SLICE, -one.end_ns, {**fields, **args}, one.length_ns)

    def _arrow(self, arrow: Arrow) -> None:
        """One number for each arrow: a begin, an end, and steps between them, each bound to the slice it stands on."""
        self._flow += 1
        last = len(arrow.points) - 1
        for number, point in enumerate(arrow.points):
            kind = "s" if number == 0 else "f" if number == last else "t"
            bound = {"bp": "e"} if kind == "f" else {}
            fields = {"ph": kind, "id": self._flow, "cat": arrow.cat, "name": arrow.name, **bound}
            self._add(point.at_ns, _ARROW, number, {**fields, "pid": point.track.pid, "tid": point.track.tid})

    def _counts(self, pid: int, counts: list[Count]) -> None:
        for count in counts:
            self._add(count.at_ns, _COUNT, 0, {"ph": "C", "name": count.name, "pid": pid, "args": count.values})

    def _add(
        self, at_ns: int, kind: int, then: int, fields: Mapping[str, object], length_ns: int | None = None
    ) -> None:
        self._events.append((at_ns, kind, then, _line(fields, at_ns - self._origin_ns, length_ns)))

    def metadata(self) -> Iterator[str]:
        """Names and order of the tracks."""
        for pid, name in self.tracks.groups:
            yield _line({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
            yield _line({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}})
        for track, name in self.tracks.rows:
            where = {"pid": track.pid, "tid": track.tid}
            yield _line({"ph": "M", "name": "thread_name", **where, "args": {"name": name}})
            yield _line({"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": track.tid}})

    def ordered(self) -> Iterator[str]:
        """By time; at one moment outer slices, inner slices, arrows, counters."""
        for *_, line in sorted(self._events, key=lambda own: own[:3]):
            yield line

    def about(self) -> dict[str, object]:
        """Where the times count from, what stands behind them, and what could not be drawn."""
        return {
            "origin_ns": str(self._origin_ns), "clock_ids": [clock.clock_id for clock in self._meta.clocks],
            "source": self._meta.source, "modelled": self._meta.modelled, "calibration": self._meta.calibration,
            "rows_without_times": dict(sorted(self._untimed.items())),
        }  # fmt: skip


def _line(fields: Mapping[str, object], at_ns: int | None = None, length_ns: int | None = None) -> str:
    """One event. Its times are written digit by digit: no float64 is between."""
    text = json.dumps(fields, ensure_ascii=True, allow_nan=False)
    times = [(name, ns) for name, ns in (("ts", at_ns), ("dur", length_ns)) if ns is not None]
    return "".join((text[:-1], *(f', "{name}": {_us(ns)}' for name, ns in times), "}"))


def _us(ns: int) -> str:
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1_000}.{abs(ns) % 1_000:03d}"


def _moments(drawn: list[Drawn], counts: list[list[Count]]) -> Iterator[int]:
    for own in drawn:
        yield from (one.start_ns for one in own.slices)
    for counted in counts:
        yield from (count.at_ns for count in counted)


def _name(process: Process) -> str:
    known = [f"{key} {value}" for key, value in process.keys.items() if value is not None and key != "host"]
    return ", ".join(known) or "process"
