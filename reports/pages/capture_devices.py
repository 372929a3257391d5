"""Sections: how busy each device of a capture was, and what the host did in its gaps."""

from __future__ import annotations

from ...analysis.captures.devices import DeviceFigures
from ...analysis.captures.figures import CaptureFigures
from ...analysis.captures.gaps import GapFigures
from ...analysis.captures.lacks import Lacks
from ..document import Block, Cell, Chart, Column, Quantity, Section, Words
from ..figures.captures import gaps_figure, windows_figure
from ..formatting import duration, percent
from .capture_basis import CALLS, basis, why_not
from .capture_many import FEW, idle_words, most_idle
from .cells import count_column, number, percent_column, table, us_column

MOST = 12
NO_OVERHEAD = "the capture has no rows of the profiler's own work"


def device_name(device: str | None, rank: int | None) -> str:
    """ "0", or "0 of rank 3" where every rank numbers its own devices."""
    return f"{device} of rank {rank}" if rank is not None else str(device)


def devices_section(figures: CaptureFigures) -> Section:
    """Busy and idle of each device, by the one definition."""
    if not figures.devices:
        why = why_not(figures, "busy", "nothing ran on a device")
        unsaid = Words(f"Busy and idle cannot be said: {why}.", emphasis=True)
        return Section("devices", "Devices", (unsaid,), brief=True)
    columns = (
        Column("device"), us_column("window"), us_column("busy"), us_column("idle"), percent_column("idle share"),
        count_column("gaps"), us_column("longest gap"), us_column("kernels"), us_column("communication"),
        us_column("copies"), us_column("memsets"), count_column("kernels (n)"), count_column("whole-graph replays (n)"),
    )  # fmt: skip
    note = (
        "Busy is the union of kernels, copies, memsets and replays of whole graphs; the window reaches from the first "
        "of them to the last. Synchronisations and annotations are no work."
    )
    few = len(figures.devices) <= FEW
    words = " ".join(_sentence(own) for own in figures.devices) if few else idle_words(figures.devices)
    rows = [_row(own, figures.lacks) for own in figures.devices]
    bars = [
        (f"device {device_name(own.device, own.rank)}", own)
        for own in figures.devices if own.window_ns and own.unseen is None
    ][:FEW]  # fmt: skip
    blocks: list[Block] = [Words(words, emphasis=True)]
    if bars:
        blocks.append(Chart("windows", "Where the devices' time went [µs]", (("all", windows_figure(bars)),)))
    blocks += [table("Devices", columns, rows, note=note), *basis(figures, unsaid=("inside graphs", "everything"))]
    return Section("devices", "Devices", tuple(blocks), brief=True)


def _sentence(own: DeviceFigures) -> str:
    if own.idle_ns is None:
        return f"Device {device_name(own.device, own.rank)}: busy and idle cannot be said, because {own.unseen}."
    share = percent(own.idle_ns / own.window_ns) if own.window_ns else "none"
    return f"Device {device_name(own.device, own.rank)}: idle {share} of {duration(own.window_ns)}."


def _row(own: DeviceFigures, lacks: Lacks) -> tuple[Cell, ...]:
    return (
        device_name(own.device, own.rank), Quantity(own.window_ns, "ns"), number(own.busy_ns, "ns", own.unseen),
        number(own.idle_ns, "ns", own.unseen), number(_share(own), "fraction", own.unseen or "the window is empty"),
        number(own.gaps, "count", own.unseen), number(own.gap_max_ns, "ns", own.unseen),
        number(own.kernel_union_ns, "ns", own.unseen),
        number(own.communication_union_ns, "ns", lacks.kernel_names or own.unseen),
        number(own.memcpy_union_ns, "ns", lacks.copies or own.unseen),
        number(own.memset_union_ns, "ns", lacks.memsets or own.unseen),
        number(own.kernels, "count", own.unseen), number(own.graph_replays, "count", lacks.replays),
    )  # fmt: skip


def _share(own: DeviceFigures) -> float | None:
    return None if own.idle_ns is None or not own.window_ns else own.idle_ns / own.window_ns


def gaps_section(figures: CaptureFigures) -> Section:
    """What the launching thread was in while the device had nothing."""
    title = "Gaps, and what the host did in them"
    found = most_idle([own for own in figures.gaps if own.gaps])
    if not found:
        unsaid = f"Cannot say: {why_not(figures, 'busy', 'nothing ran on a device')}."
        known = any(own.unseen is None for own in figures.devices)
        return Section("gaps", title, (Words("No gaps." if known else unsaid),), nav="Gaps")
    bars = [(f"device {device_name(own.device, own.rank)}", own) for own in found if own.thread is not None]
    blocks: list[Block] = [Words(_late(own), emphasis=True) for own in found]
    if bars:
        chart = (("all", gaps_figure(bars)),)
        blocks.append(Chart("gaps", "Idle time by what the launching thread was in [µs]", chart))
    for own in found:
        blocks += [_longest(own)] if own.thread is None else [_shares(own), _longest(own)]
    return Section("gaps", title, (*blocks, *basis(figures, CALLS, unsaid=("what process",))), nav="Gaps")


def _late(own: GapFigures) -> str:
    name = device_name(own.device, own.rank)
    if own.late_ns is None or not own.late_known_ns:
        return f"Device {name}: whether the host was late cannot be said, the calls behind the work were not recorded."
    late = percent(own.late_ns / own.late_known_ns)
    whole = own.late_known_ns == own.idle_ns
    known = "" if whole else f" (of the {duration(own.late_known_ns)} whose next call is known)"
    profiler = f" {duration(own.overhead_ns)} of it lie under the profiler's own work." if own.overhead_ns else ""
    return f"Device {name}: in {late} of its idle time{known} the next operation had not been asked for yet.{profiler}"


def _shares(own: GapFigures) -> Block:
    rows: list[tuple[Cell, ...]] = [
        (
            share.name or "nothing recorded", share.kind or "", Quantity(share.idle_ns, "ns"),
            Quantity(share.share, "fraction"),
        )
        for share in own.host[:MOST]
    ]  # fmt: skip
    columns = (Column("the host was in"), Column("kind"), us_column("idle"), percent_column("share"))
    return table(f"Idle time of device {device_name(own.device, own.rank)} by what {own.thread} was in", columns, rows)


def _longest(own: GapFigures) -> Block:
    columns = (
        Column("start", unit="ns", numeric=True), us_column("gap"), Column("ended by"), us_column("not asked for"),
        Column("the host was in"), us_column("profiler"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            Quantity(gap.start_ns, "ns"), Quantity(gap.gap_ns, "ns"), gap.next_name or gap.next_kind,
            number(gap.late_ns, "ns", "its call was not recorded"), gap.host_name or "nothing recorded",
            number(gap.overhead_ns, "ns", NO_OVERHEAD),
        )
        for gap in own.longest[:MOST]
    ]  # fmt: skip
    return table(f"Longest gaps of device {device_name(own.device, own.rank)}", columns, rows)
