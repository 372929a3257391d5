"""A sweep's page: parts of the parameters, heat maps, pairs, and points that failed."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
from stepscope.reports import SweepPoint, SweepView, render_sweep
from stepscope.reports.figures.sweep import HeatMap, LinePanel, heat_figure, lines_figure
from stepscope.reports.metrics import plot_title, title_of, unit_of
from stepscope.reports.pages.sweep_charts import cloud_chart, heat_chart, lines_chart
from stepscope.reports.pages.sweep_headline import sweep_headline
from stepscope.reports.views.axes import Axes, axes_of, values_of

ROWS, WIDTH, ORDER = "workload.settings.num_reqs", "runner.table_width", "runner.commit_order"


def sweep_of(*parameters, metric="period_p50_ns"):
    return SweepView("s", tuple(SweepPoint(str(i), p, metrics={metric: i}) for i, p in enumerate(parameters)))


def test_axes_are_chosen_by_name(sweeps):
    assert axes_of(sweeps()) == Axes(x=ROWS, y=WIDTH, series=ORDER, facets=())


@pytest.mark.parametrize(("parameters", "axes"), [
    ([{"a": 1}, {"a": 2}], Axes("a", None, None, ())),
    ([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], Axes("a", None, "b", ())),
    ([{WIDTH: 512}, {WIDTH: 8192}], Axes(WIDTH, None, None, ())),
    ([{"a": 1}], Axes(None, None, None, ())),
    ([{ROWS: 8, "workload.regime": "steady", ORDER: "first"}, {ROWS: 9, "workload.regime": "churn", ORDER: "last"}],
     Axes(ROWS, None, ORDER, ("workload.regime",))),
])
def test_axes_of_other_sweeps(parameters, axes):
    assert axes_of(sweep_of(*parameters)) == axes


def test_a_size_and_a_time_of_one_name_have_two_titles():
    assert title_of("table_copy_p50_bytes") == "table copy p50 size"
    assert title_of("table_copy_p50_ns") == "table copy p50"


def test_values_are_sorted_as_numbers():
    points = sweep_of({"a": 64}, {"a": 8}, {"a": 256}).points
    assert values_of(points, "a") == ("8", "64", "256")
    assert values_of(points, None) == ("-",)


def test_heat_map_holds_the_exposure_of_each_cell(sweeps):
    label, figure = heat_chart(sweeps()).choices[0]
    assert label == "exposed p50 [µs]"
    first, last = figure.data
    assert first["y"] == ("8", "64")
    assert first["x"] == ("512", "8192")
    assert first["z"] == ((0.0, 0.0), (0.0, 0.0))
    assert last["z"] == ((0.512, 8.192), (4.096, 65.536))
    assert last["text"][1] == ("4.10 µs", "65.5 µs")


def test_a_failed_point_leaves_its_cell_not_measured_and_is_listed(sweeps):
    sweep = sweeps()
    points = (SweepPoint("x", sweep.points[0].parameters, "failed", "out of memory"), *sweep.points[1:])
    figure = heat_chart(SweepView("s", points)).choices[0][1]
    assert figure.data[0]["z"][0][0] is None
    assert figure.data[0]["text"][0][0] == "not measured"
    text = render_sweep(SweepView("s", points), "md")
    assert re.search(r"\| x \|.*\| failed \| out of memory \|", text)


def test_lines_have_one_trace_a_series_and_leave_out_empty_metrics(sweeps):
    figure = lines_chart(sweeps()).choices[0][1]
    headings = [note["text"] for note in figure.layout["annotations"]]
    assert headings[0] == "<b>period p50 [µs]</b>"
    assert not any("exposed step" in heading for heading in headings)
    names = {trace["name"] for trace in figure.data}
    assert names == {f"commit order {o}, table width {w}" for o in ("first", "last") for w in (512, 8192)}


def test_cloud_puts_exposed_on_the_line(sweeps):
    data = cloud_chart(sweeps()).choices[0][1].data
    by_name = {trace["name"]: trace for trace in data}
    assert by_name["last"]["x"] == by_name["last"]["y"] == [0.512, 8.192, 4.096, 65.536]
    assert by_name["first"]["y"] == [0, 0, 0, 0]


def test_a_sweep_of_one_point_still_has_a_page():
    page = render_sweep(sweep_of({"a": 1}), "html")
    assert "Every point" in page
    assert heat_chart(sweep_of({"a": 1})) is None


def test_arms_stand_side_by_side(sweeps):
    text = render_sweep(sweeps(), "md")
    row = next(line for line in text.splitlines() if line.startswith("| 64 | 8192 | 1000.0 | 1065.5 |"))
    assert row.split("|")[6].strip() == "65.5"  # last - first
    assert "separate runs or a single launch do not tell" in text
    # the advice is dear, and says so
    assert "choose few settings: --dry-run tells how long it takes" in text


def test_headline_names_the_worst_point(sweeps):
    text = " ".join(render_sweep(sweeps(), "text").split())
    assert "At worst 65.5 µs of 65.5 µs are exposed (num reqs 64, table width 8192, commit order last)." in text
    assert "In 4 of the 8 points it is hidden completely." in text


def test_json_keeps_every_point(sweeps):
    content = json.loads(render_sweep(sweeps(), "json"))["content"]
    assert [point["status"] for point in content["points"]] == ["ok"] * 8 + ["failed"]
    assert content["points"][1]["metrics"]["exposed_p50_ns"] == 512


def test_metric_names_carry_their_units():
    assert [unit_of(n) for n in ("period_p50_ns", "kv_bytes", "a_share", "build_overlap_fraction", "steps")] == [
        "ns", "bytes", "fraction", "fraction", "count",
    ]
    assert (title_of("period_p50_ns"), plot_title("padding_token_share")) == ("period p50", "padding token share [%]")


@pytest.mark.parametrize(("arms", "said"), [
    ([(319_000, None, None), (-3_850, None, None)], "separate runs or a single launch do not tell"),
    ([(5_000, 4_000, 6_000), (1_000, -500, 2_500), (319_000, None, None)],
     "Orders took turns in 2 settings: committing the table last instead of first lengthens the period in 1 (5.00 µs),"
     " and it is not resolved in 1 (95 % intervals over launches)."),
    ([(3_000, -52_000, 58_000)],
     "Orders took turns in 1 setting: whether committing the table last instead of first lengthens or shortens the"
     " period is not resolved (95 % intervals over launches)."),
    ([(-5_000, -6_000, -4_000), (7_000, 6_000, 8_000)],
     "committing the table last instead of first lengthens the period in 1 (7.00 µs), shortens it in 1 (5.00 µs)"),
])
def test_the_headline_tells_an_order_from_intervals_only(sweeps, arms, said):
    names = ("last_minus_first_ns", "last_minus_first_low_ns", "last_minus_first_high_ns")
    paired = pd.DataFrame({name: pd.array([arm[n] for arm in arms], "Float64") for n, name in enumerate(names)})
    words = sweep_headline(sweeps(), paired).blocks[1].answer
    assert said in words
    assert "319 µs" not in words
    assert ("interleave=commit_order" in words) == (arms[0][1] is None)


def test_a_headline_counts_only_points_whose_exposure_is_known() -> None:
    # GIVEN one copy of 90 us that is long enough to tell, and a short one that is not
    known = {"period_p50_ns": 1, "exposed_p50_ns": 0, "table_copy_p50_ns": 90_000}
    short = {"period_p50_ns": 1, "exposed_p50_ns": None, "table_copy_p50_ns": 5_000}
    why = {"exposed_p50_ns": "copy shorter than 4 times its error"}
    points = (SweepPoint("a", {"k": 1}, metrics=known), SweepPoint("b", {"k": 2}, metrics=short, reasons=why))
    text = " ".join(render_sweep(SweepView("s", points), "text").split())
    assert "In all 1 points where it can be told (of 2) the copy is hidden completely: copies of 90.0 µs." in text
    assert "At the other point it cannot be told, mostly because: copy shorter than 4 times its error." in text


@pytest.mark.parametrize(("in_flight", "said"), [
    ((1, 1), "a step takes 1.00 ms to 3.00 ms (median periods)"),
    ((2, 1), "a step takes 2.00 ms to 4.00 ms (paces)"),  # all points by one figure
])
def test_the_headline_tells_pipelined_steps_by_their_pace(in_flight, said):
    points = tuple(
        SweepPoint(str(k), {"k": k}, metrics={
            "period_p50_ns": 1_000_000 + 2_000_000 * k, "pace_ns": 2_000_000 + 2_000_000 * k, "steps_in_flight": depth,
        }) for k, depth in enumerate(in_flight)
    )  # fmt: skip
    text = " ".join(render_sweep(SweepView("s", points), "text").split())
    assert said in text
    assert ("pace" in text) == ("paces" in said)


def test_rows_of_heat_maps_are_named_once_a_line():
    # GIVEN two panels with the same rows and one with others
    maps = [HeatMap(str(n), ("512",), ys, ((1.0,),) * len(ys), (("1",),) * len(ys))
            for n, ys in enumerate((("8", "64"), ("8", "64"), ("8",)))]  # fmt: skip
    layout = heat_figure(maps, "width", "rows", "us").layout
    assert [layout[name].get("showticklabels", True) for name in ("yaxis", "yaxis2", "yaxis3")] == [True, False, True]


def test_only_the_last_row_of_small_charts_has_axis_titles():
    # GIVEN seven panels in rows of three: the heading of the last one may reach below the second of the row above
    layout = lines_figure([LinePanel(f"metric {i}", ()) for i in range(7)], "rows").layout
    titles = [layout[f"xaxis{tail}"]["title"]["text"] for tail in ("", 2, 3, 4, 5, 6, 7)]
    assert titles == [""] * 6 + ["rows"]
