"""Sections: what the host asked for in a capture: queues, graphs, waiting calls, ranges, names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...analysis.captures.figures import CaptureFigures
from ...analysis.captures.graphs import GraphFigures
from ...analysis.captures.names import NameFigures
from ..document import Block, Cell, Column, Missing, Quantity, Section, Table, Words
from ..formatting import count
from .capture_basis import CALLS, basis, why_not
from .capture_devices import device_name
from .cells import count_column, number, table, us_column

MOST = 30
MOST_NAMES = 1_000
"""A page with tens of thousands of names takes half a minute to make and tens of MB; the JSON has all of them."""
_RANGE_DEVICE = (count_column("device operations"), us_column("device, summed"), us_column("first to last"))
_NO_DELAY = "no work of this kind has its call"


def queue_section(figures: CaptureFigures) -> Section:
    """Delay from call to start."""
    if not figures.queue:
        why = why_not(figures, "queue delays", why_not(figures, "busy", "no device work has its call"))
        return Section("queue", "Queue delay", (Words(f"Cannot say: {why}."),))
    columns = (
        Column("device"), Column("what"), count_column("n"), us_column("mean"), us_column("median"),
        us_column("p90"), us_column("longest"), count_column("clock skew (n)"), us_column("worst skew"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            device_name(own.device, own.rank), own.what, Quantity(own.n, "count"), number(own.mean_ns, "ns", _NO_DELAY),
            number(own.p50_ns, "ns", _NO_DELAY), number(own.p90_ns, "ns", _NO_DELAY),
            number(own.max_ns, "ns", _NO_DELAY), Quantity(own.skewed, "count"),
            "none" if own.skew_worst_ns is None else Quantity(own.skew_worst_ns, "ns"),
        )
        for own in figures.queue
    ]  # fmt: skip
    note = "From the start of the call to the start on the device. Starts before their calls are skew, in no mean."
    listed = table("Delay of the first operation of each call", columns, rows, note=note)
    return Section("queue", "Queue delay", (listed, *basis(figures, CALLS, unsaid=("queue delays",))))


def graphs_section(figures: CaptureFigures) -> Section:
    """Graph launches and what they replay."""
    if not figures.graphs:
        return Section("graphs", "CUDA graphs", (Words(f"Cannot say: {why_not(figures, 'busy', 'nothing ran')}."),))
    columns = (
        Column("process"), count_column("launches"), us_column("host time"), count_column("kernels replayed"),
        count_column("kernels a launch"), count_column("whole replays"), count_column("eager kernels"),
        count_column("unlinked kernels"), count_column("graph steps"), count_column("eager steps"),
    )  # fmt: skip
    lacks = figures.lacks
    why = lacks.calls or lacks.kernel_calls or lacks.kernels
    rows: list[tuple[Cell, ...]] = [
        (
            process_name(own.pid, own.rank), number(own.launches, "count", lacks.calls),
            number(own.launch_host_ns, "ns", lacks.calls), number(own.kernels, "count", why), _a_launch(own, why),
            number(own.whole_replays, "count", lacks.replays), number(own.eager_kernels, "count", why),
            number(own.unlinked_kernels, "count", lacks.kernels), number(own.graph_steps, "count", why or "no steps"),
            number(own.eager_steps, "count", why or "no steps"),
        )
        for own in figures.graphs
    ]  # fmt: skip
    listed = table("Graph launches", columns, rows)
    return Section("graphs", "CUDA graphs", (listed, *basis(figures, CALLS)), brief=True)


def _a_launch(own: GraphFigures, why: str | None) -> Cell:
    """Kernels behind a launch, median; whole graphs were traced without theirs."""
    if own.kernels_per_launch_p50 is not None:
        return Quantity(own.kernels_per_launch_p50, "count")
    if own.whole_replays:
        return Missing("graphs were traced whole, without their kernels")
    return Missing(why) if why else "none"


def process_name(pid: int | None, rank: int | None) -> str:
    """ "pid 41", "rank 3", or "the process" where the capture names none."""
    parts = [f"rank {rank}"] if rank is not None else []
    return ", ".join([*parts, *([f"pid {pid}"] if pid is not None else [])]) or "the process"


def syncs_section(figures: CaptureFigures) -> Section:
    """Waiting calls by thread and range."""
    if not figures.syncs:
        why = "" if figures.syncs is not None else figures.lacks.calls or why_not(figures, "calls did", "no names")
        words = f"Cannot say: {why}." if why else "No synchronising or blocking call was recorded."
        return Section("syncs", "Waiting calls", (Words(words),))
    columns = (
        Column("process"), Column("thread"), Column("range"), Column("call"), count_column("calls"), us_column("total"),
        us_column("longest"), count_column("like .item()"),
    )  # fmt: skip
    lacks = figures.lacks
    outside: Cell = Missing(lacks.places) if lacks.places else "outside ranges"
    rows: list[tuple[Cell, ...]] = [
        (
            process_name(own.pid, own.rank), own.thread, own.range or outside, own.call,
            Quantity(own.calls, "count"), Quantity(own.total_ns, "ns"), Quantity(own.max_ns, "ns"),
            number(own.item_like, "count", lacks.items),
        )
        for own in figures.syncs[:MOST]
    ]  # fmt: skip
    listed = table("Synchronising and blocking calls", columns, rows, note=_more(len(figures.syncs), MOST))
    return Section("syncs", "Waiting calls", (listed,), brief=True)


def _more(found: int, shown: int) -> str:
    return f"The {count(shown)} with the longest totals of {count(found)}." if found > shown else ""


def ranges_section(figures: CaptureFigures) -> Section:
    """Ranges with the device work that they launched."""
    if not figures.ranges:
        return Section("ranges", "Ranges", (Words("The capture has no ranges."),))
    columns = (
        Column("range"), Column("domain"), Column("process"), count_column("uses"), us_column("host"),
        us_column("shortest"), us_column("longest"), *(_RANGE_DEVICE if figures.devices else ()),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for own in figures.ranges[:MOST_NAMES]:
        host = (
            own.name, own.domain or "", process_name(own.pid, own.rank), Quantity(own.uses, "count"),
            Quantity(own.total_ns, "ns"), Quantity(own.min_ns, "ns"), Quantity(own.max_ns, "ns"),
        )  # fmt: skip
        work = (
            number(own.gpu_ops, "count", own.gpu_reason), number(own.gpu_sum_ns, "ns", own.gpu_reason),
            number(own.projected_ns, "ns", own.gpu_reason),
        )  # fmt: skip
        rows.append((*host, *(work if figures.devices else ())))
    note = _more(len(figures.ranges), MOST_NAMES)
    listed = table("Ranges and operators, children included", columns, rows, note=note)
    return Section("ranges", "Ranges", (replace(listed, filterable=True), *basis(figures, CALLS)))


def names_section(figures: CaptureFigures) -> Section:
    """Kernels and calls by name."""
    blocks: list[Block] = []
    for caption, found in (("Kernels", figures.kernels), ("Calls", figures.calls)):
        if found:
            blocks.append(_names(caption, found))
    return Section("names", "Kernels and calls", tuple(blocks) or (Words("None."),))


def _names(caption: str, found: Sequence[NameFigures]) -> Table:
    columns = (
        Column("name"), Column("kind"), count_column("n"), us_column("total"), us_column("median"),
        us_column("shortest"), us_column("longest"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            own.name, own.kind, Quantity(own.n, "count"), Quantity(own.total_ns, "ns"), number(own.p50_ns, "ns"),
            Quantity(own.min_ns, "ns"), Quantity(own.max_ns, "ns"),
        )
        for own in found[:MOST_NAMES]
    ]  # fmt: skip
    listed = table(f"{caption} by name", columns, rows, note=_more(len(found), MOST_NAMES))
    return replace(listed, filterable=True)
