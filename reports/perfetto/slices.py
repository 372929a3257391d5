"""What will be drawn: slices of every lane of one process, in the recording's own nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...analysis.columns import Columns
from ...analysis.tables import Process

STEP_LANE = "steps"
HOST = "host"
_SPAN_NUMBERS = ("step", "depth", "err_ns", "correlation", "graph_node", "size_bytes")
_COPY_NUMBERS = ("step", "size_bytes", "changed_bytes", "err_ns", "correlation", "copy_count", "graph_node")


@dataclass(frozen=True, slots=True)
class Slice:
    """An interval on a lane. `group` is HOST or a device's name; together with the lane it says where.

    cat     what it is: step, a kind of span, copy, enqueue, wait, device_phase
    own     the step that it belongs to; None outside steps
    tie     correlation: what a launch caused carries the launch's
    """

    group: str
    lane: str
    name: str
    cat: str
    start_ns: int
    end_ns: int
    own: int | None = None
    tie: int | None = None
    args: Mapping[str, object] = field(default_factory=dict)

    @property
    def length_ns(self) -> int:
        """Nanoseconds."""
        return self.end_ns - self.start_ns


@dataclass(slots=True)
class Drawn:
    """The slices of one process, and how many rows had no times to be drawn at."""

    slices: list[Slice] = field(default_factory=list)
    untimed: dict[str, int] = field(default_factory=dict)

    def take(self, table: str, found: Iterator[Slice | None]) -> None:
        """Add what has times; count the rest."""
        for one in found:
            if one is None:
                self.untimed[table] = self.untimed.get(table, 0) + 1
            else:
                self.slices.append(one)


def drawn_of(process: Process) -> Drawn:
    """All that a process recorded with a start and an end."""
    drawn = Drawn()
    spans = process.rows("spans")
    host_lane = _busiest_host_lane(spans)
    drawn.take("steps", _steps(process.rows("steps")))
    drawn.take("spans", _spans(spans))
    drawn.take("copies", _copies(process.rows("copies")))
    told = {one.tie for one in drawn.slices if one.group == HOST and one.tie is not None}
    drawn.slices += [one for one in _enqueues(process.rows("copies"), host_lane) if one.tie not in told]
    drawn.take("waits", _waits(process.rows("waits")))
    drawn.slices += _device_phases(process.rows("phases"))
    return drawn


class _Rows:
    """A table row by row: numbers and texts by column, None where null."""

    def __init__(self, rows: Columns, numbers: Sequence[str], texts: Sequence[str]) -> None:
        self.length = len(rows)
        self._numbers = {name: _known(rows, name) for name in numbers}
        self._texts = {name: rows.texts(name) for name in texts}

    def number(self, name: str, row: int) -> int | None:
        return self._numbers[name][row]

    def text(self, name: str, row: int) -> str | None:
        return self._texts[name][row]

    def args(self, row: int, *names: str) -> dict[str, object]:
        """What is known of a row."""
        found: dict[str, object] = {}
        for name in names:
            value = self._numbers[name][row] if name in self._numbers else self._texts[name][row]
            if value is not None:
                found[name] = value
        return found

    def times(self, row: int, start: str = "start_ns", end: str = "end_ns") -> tuple[int, int] | None:
        begin, finish = self._numbers[start][row], self._numbers[end][row]
        return (begin, finish) if begin is not None and finish is not None and finish >= begin else None


def _known(rows: Columns, name: str) -> list[int | None]:
    values, valid = rows.ints(name)
    return [value if known else None for value, known in zip(values.tolist(), valid.tolist(), strict=True)]


def _steps(rows: Columns) -> Iterator[Slice | None]:
    figures = (
        "num_reqs", "num_tokens", "padded_tokens", "padded_reqs", "kv_tokens_sum", "num_prefill", "num_decode",
        "period_ns", "latency_ns",
    )  # fmt: skip
    table = _Rows(rows, ("step", "start_ns", "end_ns", *figures), ())
    for row in range(table.length):
        times, number = table.times(row), table.number("step", row)
        name = f"step {number}" if number is not None else "step"
        yield Slice(HOST, STEP_LANE, name, "step", *times, number, None, table.args(row, *figures)) if times else None


def _spans(rows: Columns) -> Iterator[Slice | None]:
    table = _Rows(rows, ("start_ns", "end_ns", *_SPAN_NUMBERS), ("lane", "name", "kind", "device", "domain", "phase"))
    for row in range(table.length):
        times = table.times(row)
        lane, kind = table.text("lane", row) or "?", table.text("kind", row) or "span"
        yield Slice(
            _group(lane, table.text("device", row)), lane, table.text("name", row) or kind, kind, *times,
            table.number("step", row), table.number("correlation", row),
            table.args(row, "step", "phase", "domain", "correlation", "graph_node", "size_bytes", "err_ns"),
        ) if times else None  # fmt: skip


def _copies(rows: Columns) -> Iterator[Slice | None]:
    texts = ("lane", "device", "direction", "src_kind", "dst_kind", "buffer", "phase", "api")
    table = _Rows(rows, ("start_ns", "end_ns", *_COPY_NUMBERS), texts)
    for row in range(table.length):
        times, lane = table.times(row), table.text("lane", row) or "gpu:?"
        direction = table.text("direction", row) or "copy"
        buffer = table.text("buffer", row)
        name = f"{direction} {buffer}" if buffer else f"{direction} {table.text('src_kind', row) or 'unknown'}"
        yield Slice(
            _group(lane, table.text("device", row)), lane, name, "copy", *times, table.number("step", row),
            table.number("correlation", row), table.args(row, *_COPY_NUMBERS, *texts[2:]),
        ) if times else None  # fmt: skip


def _enqueues(rows: Columns, lane: str) -> Iterator[Slice]:
    """Calls that asked for copies: the probe notes them with the copy, not as spans."""
    numbers = ("enqueue_start_ns", "enqueue_end_ns", "step", "correlation", "size_bytes")
    table = _Rows(rows, numbers, ("buffer", "direction"))
    for row in range(table.length):
        times = table.times(row, "enqueue_start_ns", "enqueue_end_ns")
        if times:
            name = f"enqueue {table.text('buffer', row) or table.text('direction', row) or 'copy'}"
            yield Slice(
                HOST, lane, name, "enqueue", *times, table.number("step", row), table.number("correlation", row),
                table.args(row, "step", "correlation", "size_bytes"),
            )


def _waits(rows: Columns) -> Iterator[Slice | None]:
    table = _Rows(rows, ("start_ns", "end_ns", "step", "awaited"), ("lane", "reason"))
    for row in range(table.length):
        times, lane = table.times(row), table.text("lane", row) or "host:?"
        name = f"wait: {table.text('reason', row) or 'unknown'}"
        yield Slice(
            _group(lane, None), lane, name, "wait", *times, table.number("step", row), None,
            table.args(row, "step", "awaited"),
        ) if times else None  # fmt: skip


def _device_phases(rows: Columns) -> Iterator[Slice]:
    """Spans of the phases between events on the device; captures of others have none."""
    table = _Rows(rows, ("step", "span_start_ns", "span_ns", "starved_ns", "busy_ns", "err_ns"), ("name", "device"))
    for row in range(table.length):
        start, span = table.number("span_start_ns", row), table.number("span_ns", row)
        if start is not None and span is not None and span >= 0:
            yield Slice(
                _group("gpu:", table.text("device", row)), "phases on the device", table.text("name", row) or "?",
                "device_phase", start, start + span, table.number("step", row), None,
                table.args(row, "step", "starved_ns", "busy_ns", "err_ns"),
            )  # fmt: skip


def _group(lane: str, device: str | None) -> str:
    return HOST if lane.startswith(HOST) else (device or "unknown")


def _busiest_host_lane(spans: Columns) -> str:
    """The thread with most host rows: the one that asks for copies where the rows do not say."""
    codes, lanes = spans.coded("lane")
    counts = {
        lane: int((codes == code).sum()) for code, lane in enumerate(lanes) if lane.startswith(HOST)
    }  # fmt: skip
    return max(counts, key=lambda lane: counts[lane], default="host:main")
