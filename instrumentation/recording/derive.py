"""Columns that follow from other rows: filled once, when ledger rows become tables. Integers in, integers out.

Before                                                     after
    steps   7 start 1000 end 1600, 8 start 1700 ...          7 period 700, host_wait 50, host_busy 550, num_syncs 1
    waits   7 host:main 1100-1150                            phases gains: 7 between_steps host 100
A figure that the step noted itself stays as it was noted.

What closes: period = host_busy + waits within the step + between_steps; and period - host_wait is what the host worked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..probe.ledger import Row
from .busy import Work
from .schema import LEDGER_COLUMNS, TABLES

COMPUTE_LANE = "gpu:compute"
WORK_KINDS = frozenset({"kernel", "graph", "memset"})
"""Kinds of device spans that keep a lane busy; a launch on the host lane does not."""

Rows = Mapping[str, Sequence[Row]]


def _index(table: str, column: str) -> int:
    """Position of a column in a ledger row, which begins with the step."""
    return 1 + [entry.name for entry in TABLES[table]].index(column)


def _fields(table: str, *columns: str) -> tuple[int, ...]:
    return tuple(_index(table, column) for column in columns)


def derive(
    rows: Rows, *, modelled: bool, has_device: bool, lost: bool = False, ours: bool = True
) -> dict[str, Sequence[Row]]:
    """The same rows with period, waits, counts, `between_steps`, starved and (modelled only) busy filled in.

    Without a device the counts of launches, copies and syncs stay null: they are not applicable there. `lost`: rows are
    missing, so what is counted and summed over rows is not known, and a period only up to a step of the next number.
    `ours`: our runner records every wait, launch, copy and operation. Of another engine a kind of which there is no row
    at all was not recorded, which is not 0.
    """
    filled = dict(rows)
    filled["steps"] = _steps(rows, has_device=has_device, lost=lost, ours=ours)
    phases = list(rows.get("phases", ()))
    work = _compute_work(rows) if has_device and not lost else []
    if work or (has_device and not lost and ours):
        phases = _filled_phases(rows, Work(work), busy_too=modelled)
    filled["phases"] = _in_step_order(phases, _between(_followed(rows.get("steps", ()), lost)))
    return filled


def told_twice(steps: Iterable[Row]) -> frozenset[int | None]:
    """Numbers that stand in several rows: nobody can say whose the rows of other tables are. No probe gives one twice.
    """
    times = Counter(row[0] for row in steps)
    return frozenset(number for number, count in times.items() if count > 1)


def _followed(steps: Sequence[Row], lost: bool) -> list[tuple[Row, Row | None]]:
    """Each step and the one behind it; None behind the last one, where one may have been lost between them, and where
    the next one is none of its own loop's.
    """
    twice = told_twice(steps)
    return [
        (row, None if following is None or (lost and following[0] != row[0] + 1) or {row[0], following[0]} & twice
         else following)
        for row, following in zip(steps, (*steps[1:], None), strict=False)
    ]  # fmt: skip


def _steps(rows: Rows, *, has_device: bool, lost: bool, ours: bool) -> list[Row]:
    steps = rows.get("steps", ())
    start, end, period, busy, wait = _fields("steps", "start_ns", "end_ns", "period_ns", "host_busy_ns", "host_wait_ns")
    counts = {column: count(rows) for column, count in _COUNTS.items()} if has_device and not lost else {}
    counts = {column: found for column, found in counts.items() if found or ours}
    waited, between = _host_waits(rows.get("waits", ()), {row[0]: row[end] for row in steps})
    knows_waits = not lost and bool(waited or ours)
    twice, complete = told_twice(steps), _index("steps", "complete")
    out: list[Row] = []
    for row, following in _followed(steps, lost):
        values = list(row)
        if following is not None:
            _fill(values, period, following[start] - row[start])
        if knows_waits:
            _fill(values, wait, waited.get(row[0], 0))
            _fill(values, busy, row[end] - row[start] - (values[wait] - between.get(row[0], 0)))
        for column, count in counts.items():
            _fill(values, _index("steps", column), count[row[0]])
        if row[0] in twice:
            values[complete] = False
        out.append(tuple(values))
    return out


def _fill(values: list[Any], index: int, value: int) -> None:
    if values[index] is None:
        values[index] = value


def _host_waits(
    waits: Iterable[Row], step_ends: Mapping[int | None, int]
) -> tuple[Counter[int | None], Counter[int | None]]:
    """Nanoseconds that the host waited, by step: in its period, and of these behind its end.

    With two steps in flight the tokens of the one before are waited for between two steps; that wait belongs to the
    step that ended last, as everything there does.
    """
    lane, start, end = _fields("waits", "lane", "start_ns", "end_ns")
    total: Counter[int | None] = Counter()
    between: Counter[int | None] = Counter()
    for row in waits:
        if _on_host(row[lane]) and row[start] is not None and row[end] is not None:
            total[row[0]] += row[end] - row[start]
            if row[start] >= step_ends.get(row[0], row[start] + 1):
                between[row[0]] += row[end] - row[start]
    return total, between


def _on_host(lane: str | None) -> bool:
    return lane is not None and lane.startswith("host")


def _count_syncs(rows: Rows) -> Counter[int | None]:
    (lane,) = _fields("waits", "lane")
    return Counter(row[0] for row in rows.get("waits", ()) if _on_host(row[lane]))


def _count_launches(rows: Rows) -> Counter[int | None]:
    lane, kind = _fields("spans", "lane", "kind")
    return Counter(row[0] for row in rows.get("spans", ()) if row[kind] == "launch" and _on_host(row[lane]))


def _count_h2d(rows: Rows) -> Counter[int | None]:
    (direction,) = _fields("copies", "direction")
    return Counter(row[0] for row in rows.get("copies", ()) if row[direction] == "h2d")


_COUNTS = {"num_syncs": _count_syncs, "num_launches": _count_launches, "num_h2d": _count_h2d}


def _between(followed: Iterable[tuple[Row, Row | None]]) -> list[Row]:
    """One `between_steps` phase behind each step that one follows: from its end to the next one's start."""
    start, end = _fields("steps", "start_ns", "end_ns")
    empty = (None,) * (len(LEDGER_COLUMNS["phases"]) - 2)
    return [
        (row[0], "between_steps", following[start] - row[end], *empty)
        for row, following in followed if following is not None
    ]


def _in_step_order(phases: Iterable[Row], between: Sequence[Row]) -> list[Row]:
    """Phases with the `between_steps` row behind the phases of its step."""
    behind: dict[int | None, list[Row]] = {}
    for row in (*phases, *between):
        behind.setdefault(row[0], []).append(row)
    return [row for group in behind.values() for row in group]


def _filled_phases(rows: Rows, work: Work, *, busy_too: bool) -> list[Row]:
    """Phases with starved_ns: the part of the span in which the compute lane had no operation.

    busy_ns is the rest where the device is a model. A real one is not busy throughout an operation of ours, which may
    be many kernels: there it takes a profiler. Small copies without times count as nothing.
    """
    span, starved, busy, begin = _fields("phases", "span_ns", "starved_ns", "busy_ns", "span_start_ns")
    out: list[Row] = []
    for row in rows.get("phases", ()):
        values = list(row)
        if values[span] is not None and values[begin] is not None:
            covered = work.within(values[begin], values[begin] + values[span])
            _fill(values, starved, values[span] - covered)
            if busy_too:
                _fill(values, busy, covered)
        out.append(tuple(values))
    return out


def _compute_work(rows: Rows) -> list[tuple[int, int]]:
    """(start_ns, end_ns) of everything that occupied the compute lane, copies included."""
    lane, kind, start, end = _fields("spans", "lane", "kind", "start_ns", "end_ns")
    found = [
        (row[start], row[end]) for row in rows.get("spans", ()) if row[lane] == COMPUTE_LANE and row[kind] in WORK_KINDS
    ]
    lane, start, end = _fields("copies", "lane", "start_ns", "end_ns")
    found += [(row[start], row[end]) for row in rows.get("copies", ()) if row[lane] == COMPUTE_LANE]
    return [(begin, finish) for begin, finish in found if begin is not None and finish is not None]
