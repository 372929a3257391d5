"""Section: where the time of a step goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...analysis.stats import Number
from ...analysis.tables import BoolArray, flags, ints, plain
from ...instrumentation.recording.meta import RecordingMeta
from ..document import Block, Cell, Chart, Column, Section, Words
from ..figures.palette import PHASE_COLOURS, RANGE_COLOURS, microseconds
from ..figures.phases import Share, phases_over_time_figure, shares_figure
from ..formatting import duration, percent
from ..views.phases import PhaseView
from .cells import count_column, number, percent_column, records, table, us_column, word

MEDIAN_LANE, MEAN_LANE, PREPROCESS_LANE = "median of each phase", "mean step", "preprocess, medians"


def phases_section(view: PhaseView, origin: str, reasons: dict[str, str]) -> Section:
    """Shares, figures, course over the steps and, apart from them, the device's figures.

    `reasons` says per column of `phases`, and per `steps.` and column of those, why it is null.
    """
    blocks: list[Block] = [Words(_closing(view))]
    shares = _shares(view)
    if shares:
        title = "Host time of a step: typical, mean, and the sub-ranges of preprocess [µs]"
        blocks.append(Chart("shares", title, (("shares", shares_figure(shares)),), origin=origin))
    blocks += [_whole_table(view, origin, reasons), _host_table(view, origin)]
    if len(view.summary.ranges):
        blocks.append(_ranges_table(view, origin))
    if len(view.course) > 1 and shares:
        blocks.append(_course_chart(view, origin))
    blocks.append(_device_table(view, origin, reasons))
    return Section("phases", "Where the step's time goes", tuple(blocks), brief=True, nav="Phases")


def largest_range_words(view: PhaseView) -> str | None:
    """Name and median of the range that most of a usual preprocess goes into; None without one.

    By the median and how many steps have it: a single slow step does not make a range the largest, nor does one that
    a few steps have.
    """
    ranges = [row for row in records(view.summary.ranges) if row["share"] is not None and row["p50_ns"]]
    largest = max(ranges, key=lambda row: row["n"] * row["p50_ns"], default=None)
    return f"{largest['name']}, {duration(largest['p50_ns'])}" if largest else None


def busy_unseen(meta: RecordingMeta) -> str:
    """Why it is not known how long the device worked in a phase."""
    return meta.reason("phases", "busy_ns") or "no profiler and no model saw it"


def _closing(view: PhaseView) -> str:
    summary = view.summary
    left_out = f"{summary.steps_warmup} warm-up and {summary.steps_incomplete} incomplete steps are left out"
    head = f"{summary.steps_counted} of {view.num_steps} steps are counted ({left_out})."
    if summary.closing_worst is None or summary.closing_share is None:
        return f"{head} Whether the host phases close to the period was not measured: no step has both."
    return (
        f"{head} The host phases add up to the period within 1 % in {percent(summary.closing_share)} of"
        f" {summary.closing_checked} steps; the worst step is off by {percent(summary.closing_worst)}."
    )


def _shares(view: PhaseView) -> list[Share]:
    medians = {row["name"]: row["p50_ns"] for row in records(view.summary.host)}
    ranges = {row["name"]: row["p50_ns"] for row in records(view.summary.ranges) if row["name"] in RANGE_COLOURS}
    return [
        *_lane(MEDIAN_LANE, medians, PHASE_COLOURS), *_lane(MEAN_LANE, view.mean_ns, PHASE_COLOURS),
        *_lane(PREPROCESS_LANE, ranges, RANGE_COLOURS),
    ]


def _lane(row: str, values: Mapping[str, Number | None], colours: Mapping[str, str]) -> list[Share]:
    known = {name: float(value) for name, value in values.items() if value is not None}
    whole = sum(known.values())
    return [Share(row, name, value, value / whole, colours[name]) for name, value in known.items() if whole > 0]


_WHOLE = {
    "period_ns": "period: from its begin to the next one's",
    "latency_ns": "latency: until its tokens are with the host",
    "host_busy_ns": "host busy: from its begin to its end, without waits",
    "host_wait_ns": "host wait: for the device",
}


def _whole_table(view: PhaseView, origin: str, reasons: dict[str, str]) -> Block:
    rows = [
        (_WHOLE[str(row["name"])], *_quantiles(row, reasons.get(f"steps.{row['name']}", "no counted step has it")))
        for row in view.whole
    ]  # fmt: skip
    return table("A step as a whole", (Column("time"), *_QUANTILE_COLUMNS), rows, origin)


def _host_table(view: PhaseView, origin: str) -> Block:
    rows = [
        (row["name"], *_quantiles(row), number(view.mean_ns[row["name"]], "ns", "no counted step has the phase"),
         number(row["share"], "fraction", "no counted step has both the phase and a period"))
        for row in records(view.summary.host)
    ]
    columns = (Column("phase"), *_QUANTILE_COLUMNS, us_column("mean"), percent_column("share of period"))
    return table("Host time by phase", columns, rows, origin)


_QUANTILE_COLUMNS = (count_column("steps"), us_column("p10"), us_column("p50"), us_column("p90"))


def _quantiles(row: dict[str, object], reason: str = "no counted step has it") -> tuple[Cell, ...]:
    times = (number(row[name], "ns", reason) for name in ("p10_ns", "p50_ns", "p90_ns"))
    return (number(row["n"], "count"), *times)


def _ranges_table(view: PhaseView, origin: str) -> Block:
    rows = [
        (word(row["name"]), *_quantiles(row), _share_of_preprocess(row)) for row in records(view.summary.ranges)
    ]
    columns = (Column("sub-range"), *_QUANTILE_COLUMNS, percent_column("share of preprocess"))
    note = "Shares are of the sums over the counted steps. Nested ranges count in both."
    return table("Host time by sub-range", columns, rows, origin, note)


def _share_of_preprocess(row: dict[str, Any]) -> Cell:
    return "not part of it" if row["share"] is None else number(row["share"], "fraction")


def _course_chart(view: PhaseView, origin: str) -> Chart:
    course = view.course
    phases = {name: microseconds(map(plain, course[f"{name}_ns"].array)) for name in PHASE_COLOURS}
    figure = phases_over_time_figure(
        [int(step) for step in course["step"].array], phases, [plain(value) for value in course["num_tokens"].array],
        _axis_top_us(view),
    )
    shown, slowest = len(course), view.period_max_ns
    words = "" if shown == view.num_steps else (
        f"{shown} of {view.num_steps} steps are drawn: of each stretch its fastest and its slowest."
    )
    if slowest is not None and view.period_p50_ns is not None:
        head = f"Median period {duration(view.period_p50_ns)}, slowest counted step {duration(slowest)}."
        words = f"{head} {words}".strip()
    words += _beyond_words(view)
    return Chart("course", "Host time by phase over the steps [µs]", (("course", figure),), words, origin)


_FAR = 10
"""A step stands apart from the others beyond this many times their 90th percentile."""


def _axis_top_us(view: PhaseView) -> float | None:
    """Where the axis ends when a few steps would press all others flat (warm-up, a wait for requests); else None."""
    period, known = ints(view.course, "period_ns")
    usual = known & _usual(view)
    if not usual.any() or period[known].max() <= 2 * period[usual].max():
        return None
    return 1.08 * float(period[usual].max()) / 1_000


def _usual(view: PhaseView) -> BoolArray:
    """Which drawn steps are counted, and not far beyond the others."""
    period, known = ints(view.course, "period_ns")
    p90 = next(row["p90_ns"] for row in view.whole if row["name"] == "period_ns")
    near: BoolArray = period <= _FAR * (float(p90) if isinstance(p90, int | float) else 0.0)
    return flags(view.course, "counted", null=True) & known & near


def _beyond_words(view: PhaseView) -> str:
    """Which steps the axis cuts."""
    top = _axis_top_us(view)
    if top is None:
        return ""
    period, known = ints(view.course, "period_ns")
    far, counted = known & (period > 1_000 * top), flags(view.course, "counted", null=True)
    kinds = (("steps not counted", far & ~counted), ("the slowest counted ones", far & counted))
    named = " and ".join(name for name, which in kinds if which.any())
    return f" Beyond the axis: {named} (double-click shows them)."


def _device_table(view: PhaseView, origin: str, reasons: dict[str, str]) -> Block:
    silent = "no counted step has it"
    rows = [
        (word(row["name"]), row["figure"].removesuffix("_ns"),
         *_quantiles(row, reasons.get(row["figure"], silent)))
        for row in records(view.summary.device)
    ]
    note = (
        "Span: between device events at the phase's borders. Starved: the part of the span in which the stream had"
        " nothing to do. Busy: device work in it. Host and device overlap in time and are never added up."
    )
    return table("Device time by phase", (Column("phase"), Column("figure"), *_QUANTILE_COLUMNS), rows, origin, note)
