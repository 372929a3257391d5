"""Section: how much of the block-table copy is hidden, behind what, and what is left exposed."""

from __future__ import annotations

from ...analysis.doses import DoseResponse
from ...analysis.table_copies import BLOCK_TABLE
from ...analysis.tables import plain
from ..document import Block, Cell, Chart, Column, Missing, Quantity, Section, Words
from ..figures.copies import Bin, CopyPoints, Part, course_figure, split_figure
from ..formatting import cell, duration, percent
from ..views.copies import CopyView, Figures
from .cells import bytes_column, count_column, number, percent_column, records, table, us_column

MASK_WORDS = {
    "host": "host work", "previous_forward": "previous forward", "copy": "another copy", "other": "other device work",
}
_ROWS = (
    ("copy", "copy |C|"), ("queue_delay", "queue delay"), ("exposed", "exposed"), ("hidden", "hidden"),
)
_OVERLAPS = {
    "build": "with build_indices", "preprocess": "with preprocess", "previous_forward": "with the forward before",
}


def copies_section(view: CopyView, origin: str) -> Section:
    """Exposure first (the finding), then the split, the course, what it shared time with, and the what-if table.

    Without a copy the finding says so, and no table repeats it.
    """
    blocks: list[Block] = [Words(_sentence(view), emphasis=True)]
    parts = _parts(view)
    if parts:
        title = "The mean block-table copy: exposed and hidden [µs]"
        blocks.append(Chart("split", title, (("split", split_figure(parts)),), _split_words(parts), origin))
    if view.groups:
        blocks.append(_groups_table(view, origin))
    if view.num_copies:
        blocks.append(_figures_table(view, origin))
    if view.figure("copy").n:
        blocks.append(_course(view, origin))
    if view.num_copies:
        blocks.append(_overlap_table(view, origin))
    if any(answer.period_ns is not None for answer in view.what_if):
        blocks.append(_what_if_table(view, origin))
    if view.num_copies:
        blocks.append(Words(dose_words(view.doses)))
    return Section("copies", "The block-table copy: exposed and hidden", tuple(blocks), brief=True, nav="Copy")


def _sentence(view: CopyView) -> str:
    exposed, copy = view.figure("exposed"), view.figure("copy")
    if exposed.p50_ns is None:
        return f"How much of the copy of {view.buffer} is exposed was not measured: {exposed.reason}."
    step = view.exposure
    period = (
        f"Over the run a free copy would shorten the median steady period by {duration(step.exposed_step_ns)}."
        if step.exposed_step_ns is not None
        else f"What a free copy would save of the median steady period was not measured: {step.exposed_step_reason}."
    )
    head = f"Median of {exposed.n} copies of {view.buffer}: {duration(exposed.p50_ns)} exposed"
    length = f" of {duration(copy.p50_ns)}" if copy.p50_ns is not None else ""
    return f"{head}{length}. {period}{_others(view)}"


def _others(view: CopyView) -> str:
    """Which copies the figures leave out, though they bring block tables as well."""
    if not view.others:
        return ""
    named = ", ".join(f"{name} ({count} copies)" for name, count in view.others.items())
    return f" The other buffers with block tables, {named}, have figures of their own below."


def _parts(view: CopyView) -> list[Part]:
    exposed = view.figure("exposed").mean_ns
    if exposed is None:
        return []
    hidden = ((MASK_WORDS[mask], value) for mask, value in view.split.items())
    return [Part("exposed", float(exposed)), *(Part(name, float(value)) for name, value in hidden if value)]


def _split_words(parts: list[Part]) -> str:
    said = (
        f"{duration(part.mean_ns)} {'exposed' if part.name == 'exposed' else f'hidden behind {part.name}'}"
        for part in parts
    )
    return f"Mean copy: {', '.join(said)}."


def _quantile_cells(figures: Figures) -> tuple[Cell, ...]:
    values = (figures.p10_ns, figures.p50_ns, figures.p90_ns, figures.mean_ns)
    return (number(figures.n, "count"), *(number(value, "ns", figures.reason) for value in values))


_COLUMNS = (count_column("copies"), us_column("p10"), us_column("p50"), us_column("p90"), us_column("mean"))


def _figures_table(view: CopyView, origin: str) -> Block:
    rows = [(title, *_quantile_cells(view.figure(name))) for name, title in _ROWS]
    note = (
        "Exposed: by how much the copy's first consumer starts later than if the copy took no time, by replay in the"
        " queue model. Hidden: the rest of the copy. Queue delay: from the end of the enqueueing call to its start."
    )
    misfit = view.exposure.misfit_ns
    if misfit is not None:
        note += f" The unchanged replay strays from the recording by at most {duration(misfit)}."
    if view.exposure.left_out:
        note += f" {view.exposure.left_out} device operations could not be replayed."
    return table(f"Copies of {view.buffer} in counted steps", (Column("time"), *_COLUMNS), rows, origin, note)


def _groups_table(view: CopyView, origin: str) -> Block:
    """Each buffer's copies; all of them together in the what-ifs."""
    columns = (
        Column("buffer"), count_column("copies"), bytes_column("size, p50"), us_column("copy |C|, p50"),
        us_column("exposed, p50"), us_column("hidden, p50"), us_column("a free copy takes off a step"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            own.buffer, Quantity(own.copies, "count"), number(own.size_p50_bytes, "bytes", own.reason),
            number(own.copy_p50_ns, "ns", own.reason), number(own.exposed_p50_ns, "ns", own.reason),
            number(own.hidden_p50_ns, "ns", own.reason), number(own.exposed_step_ns, "ns", own.step_reason),
        )
        for own in view.groups
    ]  # fmt: skip
    note = "Each with the others as they were; what all of them cost together stands among the what-ifs."
    return table("All copies that bring block tables", columns, rows, origin, note)


def _course(view: CopyView, origin: str) -> Chart:
    columns = {name: [plain(value) for value in view.points[name].array] for name in view.points.columns}
    points = CopyPoints(columns["step"], columns["copy_ns"], columns["exposed_ns"], columns["build_ns"])
    bins = [Bin(float(row["low_ns"]), float(row["high_ns"]), int(row["copies"])) for row in records(view.bins)]
    words = "" if len(view.points) == view.num_copies else (
        f"By step, {len(view.points)} of {view.num_copies} copies are drawn, the extremes of each stretch among them."
    )
    often = ", and how often which exposure occurs" if bins else ""
    title = f"Copy, overlap and exposure by step{often} [µs]"
    return Chart("exposure", title, (("exposure", course_figure(points, bins)),), words, origin)


def _overlap_table(view: CopyView, origin: str) -> Block:
    rows = []
    for partner, title in _OVERLAPS.items():
        value, low, high = (view.figure(f"{partner}{bound}") for bound in ("", "_min", "_max"))
        fraction = view.fractions[partner]
        rows.append((
            title, number(value.n, "count"), number(value.p50_ns, "ns", value.reason),
            number(low.p50_ns, "ns", low.reason), number(high.p50_ns, "ns", high.reason),
            number(fraction, "fraction", value.reason),
        ))
    columns = (
        Column("copy shared time"), count_column("copies"), us_column("p50"), us_column("p50 of the lower bound"),
        us_column("p50 of the upper bound"), percent_column("share of the copy, p50"),
    )
    note = "Descriptions, not savings: a copy that overlaps fully can still delay its consumer. Bounds: clock error."
    return table("With what the copy shared time", columns, rows, origin, note)


def _what_if_table(view: CopyView, origin: str) -> Block:
    rows = [
        (
            answer.change.name, number(answer.steps, "count"), number(answer.period_ns, "ns", answer.reason),
            number(answer.predicted_period_ns, "ns", answer.reason), number(answer.saved_ns, "ns", answer.reason),
            check,
        )
        for answer, check in zip(view.what_if, view.checks, strict=True)
    ]
    columns = (
        Column("if"), count_column("steady steps"), us_column("mean period"), us_column("predicted mean period"),
        us_column("saved, mean"), Column("check by"),
    )
    note = (
        "Means over the steady steps; negative: the step becomes longer. What a free copy takes off a step"
        " (above) is another figure of the same replay, which slow steps do not move."
    )
    return table("What if: predicted by the same replay", columns, rows, origin, note)


def dose_words(doses: DoseResponse) -> str:
    """What the period would pay of a longer copy, in a sentence."""
    if doses.slope is None:
        return f"Dose response: not known; {doses.reason}."
    said = ", ".join(f"x {dose.factor:g} adds {duration(dose.period_added_ns)}" for dose in doses.doses)
    return (
        f"Dose response, by the same replay: of each further nanosecond of the copy the median steady period pays"
        f" {doses.slope:.2f} ({said}; n = {len(doses.doses)} doses)."
    )


def headline_words(view: CopyView) -> str:
    """The answer to the second question in a sentence or two."""
    exposed, copy = view.figure("exposed"), view.figure("copy")
    if exposed.mean_ns is None or not copy.mean_ns:
        return f"Not measured: {exposed.reason}."
    parts = [part for part in _parts(view) if part.name != "exposed"]
    size = "" if view.size_p50_bytes is None else f" ({cell(Quantity(view.size_p50_bytes, 'bytes'))})"
    masked = f"most of it behind {max(parts, key=lambda part: part.mean_ns).name}" if parts else ""
    which = f" of {view.buffer}" if view.others or view.buffer != BLOCK_TABLE else ""
    err = view.figure("err").p50_ns
    known = f", each known to {duration(err)}" if err else ""
    head = f"The mean of {copy.n} copies{which}{size} takes {duration(copy.mean_ns)} on the device{known}"
    head += _more_tables(view)
    if not exposed.mean_ns:
        return f"{head}; nothing of it is exposed, all of it hides{f', {masked}' if masked else ''}."
    part = f"{percent(exposed.mean_ns / copy.mean_ns)} of it, {duration(exposed.mean_ns)}, is exposed"
    return f"{head}; {part}{f', the rest hides, {masked}' if masked else ' and nothing is hidden'}."


def _more_tables(view: CopyView) -> str:
    """What further buffers with block tables take, where there are some."""
    times = [own.copy_p50_ns for own in view.groups if own.buffer != view.buffer and own.copy_p50_ns is not None]
    return f" (those of {len(times)} more with block tables {duration(sum(times))}, medians)" if times else ""


def headline_figures(view: CopyView) -> tuple[tuple[str, Cell], ...]:
    """The figures under that sentence."""
    exposed, hidden, step = view.figure("exposed"), view.figure("hidden"), view.exposure
    return (
        ("exposed, mean", number(exposed.mean_ns, "ns", exposed.reason)),
        ("hidden, mean", number(hidden.mean_ns, "ns", hidden.reason)),
        ("what a free copy takes off a step", Missing(step.exposed_step_reason or "") if step.exposed_step_ns is None
         else Quantity(step.exposed_step_ns, "ns")),
        ("inside build_indices, p50", _inside_build(view)),
    )


def _inside_build(view: CopyView) -> Cell:
    """Time, its bounds over the clock's error, and the share of the copy: a share alone says nothing."""
    share, build = view.fractions["build"], view.figure("build").p50_ns
    least, most = (view.figure(f"build_{bound}").p50_ns for bound in ("min", "max"))
    if share is None or build is None or least is None or most is None:
        return Missing(view.figure("build").reason)
    return f"{duration(build)} ({duration(least)} to {duration(most)}), {percent(share)} of the copy"
