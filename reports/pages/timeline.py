"""Section: the timeline of chosen steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Block, Cell, Chart, Column, Missing, Quantity, Row, Section, Table, Words
from ..figures.timeline import timeline_figure
from ..formatting import duration
from ..views.timeline import StepTimeline
from .cells import us_column

_TITLE = "Timeline of a step: host, copies, compute [µs since the step began]"
_DEVICE = " Device work has the colour of its phase, pale where it is another step's."
_SHADED = " Shaded: the block-table copy and build_indices run at the same time."


def timeline_section(timelines: tuple[StepTimeline, ...], origin: str, reason: str) -> Section:
    """The chart with its choice of steps, and the exact times of those steps in the recording's own clock."""
    if not timelines:
        return Section("timeline", "Timeline of a step", (Words(f"Not measured: {reason}."),), nav="Timeline")
    chart = timeline_chart(tuple((label(line), line) for line in timelines), "timeline", origin)
    blocks: tuple[Block, ...] = (chart, _exact_table(timelines, origin))
    return Section("timeline", "Timeline of a step", blocks, brief=True, nav="Timeline")


def timeline_chart(lines: tuple[tuple[str, StepTimeline], ...], id_: str, origin: str) -> Chart:
    """One chart, a choice for each (label, timeline)."""
    left_out = sum(line.num_left_out for _, line in lines)
    words = f"The shortest {left_out} intervals are left out." if left_out else ""
    shades = _DEVICE if any(bar.role == "kernel" for _, line in lines for bar in line.bars) else ""
    shades += _SHADED if any(line.overlaps for _, line in lines) else ""
    hint = zoom_hint([text for text, _ in lines], shades, "step")
    return Chart(id_, _TITLE, tuple((text, timeline_figure(line)) for text, line in lines), words, origin, hint)


def zoom_hint(labels: Sequence[str], shades: str, what: str) -> str:
    """How to read and move a timeline. Several `labels` are a list on the page; a single one would be told nowhere."""
    if len(labels) == 1:
        return f"{labels[0][:1].upper()}{labels[0][1:]}.{shades} Drag to zoom, double-click to go back."
    return f"{shades.lstrip()} Drag to zoom, double-click to go back; the list chooses the {what}.".lstrip()


def _overlap(line: StepTimeline) -> Cell:
    if line.overlaps is None:
        return Missing("no copy of the block table has device times in the step")
    return Quantity(sum(end - start for start, end in line.overlaps), "ns")


def label(line: StepTimeline) -> str:
    """What the list of steps says: why the step was chosen, its number and its length."""
    return f"{line.why}: step {line.step}, {duration(line.end_ns - line.start_ns)} until its last work"


def _exact_table(timelines: tuple[StepTimeline, ...], origin: str) -> Table:
    rows = tuple(
        Row((
            line.why, Quantity(line.step, "exact"), Quantity(line.start_ns, "exact"), Quantity(line.end_ns, "exact"),
            Quantity(line.end_ns - line.start_ns, "ns"),
            _overlap(line),
        ), origin)
        for line in timelines
    )
    columns = (
        Column("chosen as"), Column("step", numeric=True), Column("begins [ns of its clock]", numeric=True),
        Column("last work ends [ns of its clock]", numeric=True), us_column("length"),
        us_column("copy and build_indices together"),
    )
    return Table("The steps to choose from, exactly", columns, rows)
