"""Sections: phases and steps of a capture."""

from __future__ import annotations

from typing import Any

from ...analysis.captures.figures import CaptureFigures
from ..document import Block, Cell, Chart, Column, Figure, Section, Table, Words
from ..figures.captures import host_steps_figure, steps_figure
from .capture_basis import PHASES, STEPS, basis, why_not
from .capture_host import process_name
from .cells import count_column, number, records, table, us_column, word

MOST_BARS = 2_000
_HOST_COLUMNS = (
    Column("process"), Column("step", unit="exact", numeric=True), us_column("host"), us_column("period"),
    count_column("tokens"), count_column("requests"),
)  # fmt: skip
_DEVICE_COLUMNS = (
    Column("device"), us_column("window"), us_column("busy"), us_column("idle"), count_column("gaps"),
    count_column("kernels"), count_column("graph launches"), count_column("copies"),
)  # fmt: skip
_NO_WORK = "the step launched nothing on a device"
_NO_CALLS = "the capture has no calls of CUDA: nobody knows what the step launched"
_NOT_TOLD = "the step's name does not tell"


def phases_section(figures: CaptureFigures) -> Section:
    """Host and device time of the phases."""
    if figures.phases.empty:
        question = "by step" if figures.steps.empty else "by phase"
        why = why_not(figures, question, "nothing was recorded")
        return Section("phases", "Phases", (Words(f"Cannot say: {why}."),), brief=True)
    columns = (
        Column("process"), Column("device"), Column("phase"), Column("told by"), count_column("steps"),
        us_column("host"), us_column("host median"), us_column("device busy"), us_column("device median"),
    )  # fmt: skip
    why_none = _why_none(figures)
    rows: list[tuple[Cell, ...]] = [
        (
            process_name(own["pid"], own["rank"]), word(own["device"], why_none), word(own["phase"]),
            word(own["origin"], "the phase has device work only"),
            number(own["steps"], "count"), number(own["host_ns"], "ns"), number(own["host_p50_ns"], "ns"),
            number(own["busy_ns"], "ns", why_none), number(own["busy_p50_ns"], "ns", why_none),
        )
        for own in records(figures.phases)
    ]  # fmt: skip
    note = "Host and device time overlap and are never added up. Device time is that of the work a phase launched."
    listed = table("Phases over all steps", columns, rows, note=note)
    return Section("phases", "Phases", (listed, *basis(figures, PHASES)), brief=True)


def steps_section(figures: CaptureFigures) -> Section:
    """Every step with the work that it launched."""
    if figures.steps.empty:
        why = why_not(figures, "by step", "nothing was recorded")
        return Section("steps", "Steps", (Words(f"Cannot say: {why}."),))
    on_device = bool(figures.devices)
    columns = (*_HOST_COLUMNS, *(_DEVICE_COLUMNS if on_device else ()))
    found = list(records(figures.steps))
    why_none = _why_none(figures)
    listed = table("Steps, with the device work that they launched" if on_device else "Steps", columns, [
        (*_host(own), *(_device(own, why_none) if on_device else ())) for own in found
    ])  # fmt: skip
    blocks: list[Block] = []
    choices = _choices(found, on_device) if len(found) <= MOST_BARS else ()
    if choices:
        title = "Device time of the work that each step launched [µs]" if on_device else "Host time of each step [µs]"
        blocks.append(Chart("steps", title, choices))
    blocks.append(Table(listed.caption, listed.columns, listed.rows, filterable=True))
    unsaid = () if on_device else ("busy",)
    return Section("steps", "Steps", (*blocks, *basis(figures, STEPS, unsaid=unsaid)))


def _why_none(figures: CaptureFigures) -> str:
    if not figures.calls:
        return _NO_CALLS
    return figures.lacks.work_calls or next((own.unseen for own in figures.devices if own.unseen), _NO_WORK)


def _choices(found: list[dict[str, Any]], on_device: bool) -> tuple[tuple[str, Figure], ...]:
    """A chart a process and device; a process, where nothing ran on a device."""
    groups: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for own in found:
        if own["device"] is not None or not on_device:
            groups.setdefault((own["pid"], own["rank"], own["device"]), []).append(own)
    if not on_device:
        return tuple(
            (process_name(_int(pid), _int(rank)), host_steps_figure(rows)) for (pid, rank, _), rows in groups.items()
        )
    return tuple(
        (f"{process_name(_int(pid), _int(rank))}, device {device}", steps_figure(rows))
        for (pid, rank, device), rows in groups.items()
    )


def _host(own: dict[str, Any]) -> tuple[Cell, ...]:
    start, end = own["start_ns"], own["end_ns"]
    host = end - start if isinstance(start, int) and isinstance(end, int) else None
    return (
        process_name(_int(own["pid"]), _int(own["rank"])), number(own["step"], "exact"), number(host, "ns"),
        number(own["period_ns"], "ns", "the last step has no next one"),
        number(own["num_tokens"], "count", _NOT_TOLD), number(own["num_reqs"], "count", _NOT_TOLD),
    )  # fmt: skip


def _device(own: dict[str, Any], why_none: str) -> tuple[Cell, ...]:
    return (
        word(own["device"], why_none),
        *(number(own[name], "ns", why_none) for name in ("window_ns", "busy_ns", "idle_ns")),
        *(number(own[name], "count", why_none) for name in ("gaps", "kernels", "graph_launches", "copies")),
    )


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None
