"""Sections: phases and steps of a capture."""

from __future__ import annotations

from ...analysis.captures.figures import CaptureFigures
from ..document import Cell, Column, Quantity, Section, Table, Words
from .capture_host import process_name
from .cells import count_column, number, records, table, us_column, word

_NO_WORK = "the step launched nothing on a device"
_NOT_TOLD = "the step's name does not tell"


def _why(figures: CaptureFigures, question: str) -> str:
    return next((own.because for own in figures.cannot_say if question in own.question), "nothing was recorded")


def phases_section(figures: CaptureFigures) -> Section:
    """Host and device time of the phases."""
    if figures.phases.empty:
        why = _why(figures, "by phase") if not figures.steps.empty else _why(figures, "by step")
        return Section("phases", "Phases", (Words(f"Phases cannot be said: {why}."),), brief=True)
    columns = (
        Column("process"), Column("device"), Column("phase"), Column("told by"), count_column("steps"),
        us_column("host"), us_column("host median"), us_column("device busy"), us_column("device median"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            process_name(own["pid"], own["rank"]), word(own["device"], _NO_WORK), word(own["phase"]),
            word(own["origin"], "the phase has device work only"),
            number(own["steps"], "count"), number(own["host_ns"], "ns"), number(own["host_p50_ns"], "ns"),
            number(own["busy_ns"], "ns", _NO_WORK), number(own["busy_p50_ns"], "ns", _NO_WORK),
        )
        for own in records(figures.phases)
    ]  # fmt: skip
    note = "Host and device time overlap and are never added up. Device time is that of the work a phase launched."
    return Section("phases", "Phases", (table("Phases over all steps", columns, rows, note=note),), brief=True)


def steps_section(figures: CaptureFigures) -> Section:
    """Every step with the work that it launched."""
    if figures.steps.empty:
        return Section("steps", "Steps", (Words(f"Steps cannot be said: {_why(figures, 'by step')}."),))
    columns = (
        Column("process"), Column("step", unit="exact", numeric=True), Column("device"), us_column("host"),
        us_column("period"), count_column("tokens"), count_column("requests"), us_column("window"), us_column("busy"),
        us_column("idle"), count_column("gaps"), count_column("kernels"), count_column("graph launches"),
        count_column("copies"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [_row(own) for own in records(figures.steps)]
    listed = table("Steps, with the device work that they launched", columns, rows)
    return Section("steps", "Steps", (Table(listed.caption, listed.columns, listed.rows, filterable=True),))


def _row(own: dict[str, object]) -> tuple[Cell, ...]:
    start, end = own["start_ns"], own["end_ns"]
    host = end - start if isinstance(start, int) and isinstance(end, int) else None
    return (
        process_name(_int(own["pid"]), _int(own["rank"])), number(own["step"], "exact"), word(own["device"], _NO_WORK),
        number(host, "ns"), number(own["period_ns"], "ns", "the last step has no next one"),
        number(own["num_tokens"], "count", _NOT_TOLD), number(own["num_reqs"], "count", _NOT_TOLD),
        *(number(own[name], "ns", _NO_WORK) for name in ("window_ns", "busy_ns", "idle_ns")),
        number(own["gaps"], "count", _NO_WORK), Quantity(_int(own["kernels"]) or 0, "count"),
        Quantity(_int(own["graph_launches"]) or 0, "count"), Quantity(_int(own["copies"]) or 0, "count"),
    )  # fmt: skip


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None
