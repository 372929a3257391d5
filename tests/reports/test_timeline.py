"""The timeline of a step: its rows, what belongs to it, the shaded overlap, and which steps are offered."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from stepscope.analysis.tables import processes
from stepscope.reports.figures.timeline import timeline_figure
from stepscope.reports.pages.timeline import label, timeline_chart
from stepscope.reports.views.steps import choose_steps, gather_timelines
from stepscope.reports.views.timeline import Bar, StepTimeline, step_timeline

BASE, US = 1_000_000_000, 1_000
NO_EXPOSURES = pd.DataFrame({"step": [], "exposed_ns": []})


@pytest.fixture
def process(recordings):
    return processes(recordings(6, base_ns=BASE))[0]


def test_rows_go_from_the_host_to_the_compute_lane(process):
    line = step_timeline(process, 2, "median")
    assert line is not None
    assert line.rows == (
        "host phases", "host ranges", "host calls", "host waits", "copies gpu:compute", "compute gpu:compute",
    )


def test_bars_have_the_recorded_times(process):
    line = step_timeline(process, 2, "median")
    forward = [bar for bar in line.bars if bar.name == "forward" and bar.role == "kernel"]
    assert [(bar.start_ns, bar.end_ns) for bar in forward] == [(BASE + 2_405 * US, BASE + 2_805 * US)]
    calls = sorted(bar.name for bar in line.bars if bar.role == "call")
    assert calls == ["enqueue block_table", "enqueue input_ids", "enqueue sampled", "forward", "sample", "slot_mapping"]


@pytest.mark.parametrize(("copy_us", "overlap_us"), [(60, 60), (100, 100), (200, 110)])
def test_overlap_is_copy_with_build_indices(recordings, copy_us, overlap_us):
    # build_indices runs 80-200, the copy from 90 on
    line = step_timeline(processes(recordings(3, base_ns=BASE, copy_us=copy_us))[0], 1, "x")
    assert line.overlaps == ((BASE + 1_090 * US, BASE + (1_090 + overlap_us) * US),)
    shapes = timeline_figure(line).layout["shapes"]
    assert [(shape["x0"], shape["x1"]) for shape in shapes] == [(90.0, 90.0 + overlap_us)]


def test_device_work_of_another_step_is_shown_and_pale(process):
    # GIVEN a forward of step 1 that still runs when step 2 begins
    spans = process.tables["spans"].copy()
    late = (spans["step"] == 1) & (spans["name"] == "forward") & (spans["lane"] == "gpu:compute")
    spans.loc[late, "end_ns"] = BASE + 2_100 * US
    line = step_timeline(type(process)(process.keys, {**process.tables, "spans": spans}), 2, "x")
    # THEN it is in the picture, marked as not the step's own, and does not stretch the window
    foreign = [bar for bar in line.bars if not bar.own]
    assert [(bar.name, bar.end_ns) for bar in foreign] == [("forward", BASE + 2_100 * US)]
    assert line.end_ns == BASE + 2_900 * US
    trace = timeline_figure(line).data[-2]
    assert trace["name"] == "device, other step"
    assert trace["marker"]["color"][0].startswith("rgba")


def test_device_work_has_the_phase_of_its_call_whatever_its_name(process):
    # GIVEN work of a name that says nothing, one whose call was not recorded, and some without a number of its own
    spans = process.tables["spans"].copy()
    on_device, in_step = spans["lane"] == "gpu:compute", spans["step"] == 2
    spans.loc[on_device & (spans["name"] == "slot_mapping"), "name"] = "token_handoff"
    calls = in_step & (spans["kind"] == "launch")
    spans.loc[calls & (spans["name"] == "sample"), "kind"] = "api"
    spans = spans.sample(frac=1, random_state=0)  # rows stand in the order in which things ended
    line = step_timeline(type(process)(process.keys, {**process.tables, "spans": spans}), 2, "x")
    # THEN it is told by where the host launched it, or by no phase
    phases = {bar.name: bar.phase for bar in line.bars if bar.role == "kernel" and bar.own}
    assert phases == {"token_handoff": "preprocess", "forward": "forward", "sample": ""}


def test_each_entry_of_the_legend_has_a_colour_of_its_own(process):
    line = step_timeline(process, 2, "x")
    kernel = Bar("compute gpu:compute", "kernel", "k", line.start_ns, line.start_ns + 5)
    own = Bar("host phases", "phase", "verify", line.start_ns, line.start_ns + 5)
    traces = timeline_figure(replace(line, bars=(*line.bars, kernel, own), overlaps=None)).data
    first = {trace["name"]: trace["marker"]["color"][0] for trace in traces}
    assert list(first) == [
        "preprocess", "forward", "sample", "phase", "sub-range", "host call", "host wait", "copy", "device work",
    ]
    assert len(set(first.values())) == len(first)
    # and a phase has one colour, on the host and on the device
    for trace in traces[:3]:
        assert len(set(trace["marker"]["color"])) == 1
        assert {"host phases", "compute gpu:compute"} == set(trace["y"])


def test_what_is_not_drawn_is_not_explained(process):
    # GIVEN steps as a CPU gives them, without anything on a device
    host = [bar for bar in step_timeline(process, 2, "x").bars if bar.role not in ("kernel", "copy")]
    line = replace(step_timeline(process, 2, "x"), bars=tuple(host), overlaps=None)
    drag = "Drag to zoom, double-click to go back; the list chooses the step."
    assert timeline_chart((("a", line), ("b", line)), "t", "").hint == drag
    whole = timeline_chart((("a", line), ("b", step_timeline(process, 2, "x"))), "t", "").hint
    assert whole.startswith("Device work has the colour of its phase")
    assert "Shaded: " in whole
    assert label(line) == "x: step 2, 900 µs until its last work"


def test_a_step_without_times_has_no_timeline(process):
    assert step_timeline(process, 77, "x") is None


def test_too_many_bars_keep_the_longest(monkeypatch, process):
    monkeypatch.setattr("stepscope.reports.views.timeline.MAX_BARS", 5)
    line = step_timeline(process, 2, "x")
    assert len(line.bars) == 5
    assert line.num_left_out > 10
    assert {"sample", "forward"} <= {bar.name for bar in line.bars}


def test_figure_counts_from_the_step_start_also_beyond_2_60():
    start = 2**60 + 1
    bar = Bar("host phases", "phase", "preprocess", start + 1, start + 1_501)
    line = StepTimeline(7, "x", start, start + 2_000, (bar,))
    trace = timeline_figure(line).data[0]
    assert (trace["base"], trace["x"]) == ([0.001], [1.5])


def test_chosen_steps_are_named_by_what_they_are(recordings):
    # GIVEN six steps, the first warm-up, of which step 3 is slow and step 5 short
    rec = recordings(6, base_ns=BASE)
    rec.tables["steps"]["period_ns"] = pd.array([9, 1000, 1000, 5000, 1000, 800], dtype="Int64")
    exposures = pd.DataFrame({"step": pd.array([1, 2], dtype="Int64"), "exposed_ns": pd.array([5, 50], dtype="Int64")})
    chosen = {c.step: c.why for c in choose_steps(processes(rec)[0], exposures)}
    assert chosen == {
        2: "median, most exposed copy", 3: "p99, slowest", 5: "fastest", 1: "first steady, most tokens",
    }


def test_a_recording_without_steps_has_no_timelines(recordings):
    assert gather_timelines(recordings(0), NO_EXPOSURES) == ()
