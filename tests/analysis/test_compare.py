"""Two recordings side by side: which step is which, what is judged, and what must not be compared."""

import json

import msgspec
import numpy as np
import pandas as pd
import pytest
from stepscope.analysis.columns import Columns
from stepscope.analysis.compare import compare
from stepscope.analysis.compare_steps import match_by_length, match_by_number
from stepscope.errors import Incomparable
from stepscope.instrumentation.recording.meta import KILLED, ClockInfo, RecordingMeta
from stepscope.instrumentation.recording.reader import Recording
from stepscope.instrumentation.recording.schema import KEYS, TABLES
from stepscope.reports import render_comparison

PANDAS = {"int64": "Int64", "float64": "Float64", "string": "string", "bool": "boolean"}
US = 1_000


def steps(lengths, first=0, start=0):
    """A table `steps` of these lengths, one behind the other."""
    ends = np.cumsum(lengths) + start
    return Columns(pd.DataFrame({
        "step": np.arange(first, first + len(lengths)), "start_ns": ends - lengths, "end_ns": ends,
    }))  # fmt: skip


def recording(source="lab", origin=0, numbers=range(6), longer=0, copies=2, **meta):
    """Steps of 1 ms and a little more each, with their phases, and copies of 64 bytes.

    The spans between events (lab) begin 60 µs into the step and last 300 µs; the work that a capture saw begins 40 µs
    later and lasts 200.
    """
    lab = source == "lab"
    rows = {name: [] for name in TABLES}
    for number in numbers:
        start = origin + number * 2_000 * US
        rows["steps"].append({"step": number, "start_ns": start, "end_ns": start + (1_000 + 40 * number) * US + longer})
        rows["phases"].append({
            "step": number, "name": "forward", "host_ns": 100 * US + longer, "err_ns": 20 * US if lab else None,
            "span_start_ns": start + (60 if lab else 100) * US, "span_ns": (300 if lab else 200) * US,
            "busy_ns": None if lab else 150 * US,
        })  # fmt: skip
        for n in range(copies):
            at = start + n * 10 * US
            rows["copies"].append({
                "step": number, "direction": "h2d", "src_kind": "pinned", "dst_kind": "device", "size_bytes": 64,
                "start_ns": at, "end_ns": at + 3 * US + (500 if lab else 0), "err_ns": 600 if lab else None,
            })  # fmt: skip
    frames = {}
    for name, found in rows.items():
        columns = (*KEYS, *TABLES[name])
        frames[name] = pd.DataFrame({
            c.name: pd.array([{"pid": 7, **row}.get(c.name) for row in found], dtype=PANDAS[c.type]) for c in columns
        })  # fmt: skip
    clock = ClockInfo(clock_id="own", kind="measured")
    about = RecordingMeta(source=source, device="cuda", clocks=(clock,), **meta)
    return Recording.from_frames(frames, about)


def changed(found, **values):
    return Recording(msgspec.structs.replace(found.meta, **values), found.tables)


def test_a_phase_that_was_left_once_has_no_sum():
    # GIVEN a phase that an exception left and that was tried again, in one step of one side
    sides = [recording(), recording()]
    phases = sides[0].tables["phases"]
    again = phases[phases["step"] == 2].assign(host_ns=pd.NA)
    sides[0].tables["phases"] = pd.concat([again, phases], ignore_index=True).astype(phases.dtypes)
    # THEN that step is no pair of times
    (forward,) = [own for own in compare(*sides).figures if (own.name, own.figure) == ("forward", "host_ns")]
    assert forward.n == 5


def test_a_side_that_is_not_whole_says_so():
    part = changed(recording(), history=(f"{KILLED}; 3 torn bytes cut",))
    found = compare(recording(), part)
    assert (found.a.lacks, found.b.lacks) == ((), ("the run was killed; 3 torn bytes cut",))
    assert "B is not whole: the run was killed; 3 torn bytes cut." in render_comparison(found, "md", name="x")


def test_where_steps_overlap_a_period_is_no_steps_time():
    # GIVEN a side whose tokens come after the next step has begun
    late = recording()
    late.tables["steps"]["latency_ns"] = pd.array([2_500 * US] * 6, dtype="Int64")
    found = compare(recording(), late)
    assert (found.a.in_flight, found.b.in_flight) == (1, 2)
    told = render_comparison(found, "md", name="x")
    assert "In B 2 steps are on their way at once, so a single period is no step's time" in told
    assert "In A " not in told


class TestMatching:
    def test_by_number_names_what_has_no_partner(self):
        pairs = match_by_number(steps([5, 6, 7]), steps([5, 6, 7], first=2))
        assert (pairs.a.tolist(), pairs.b.tolist()) == ([2], [0])
        assert (pairs.unmatched_a, pairs.unmatched_b) == ((0, 1), (3, 4))

    def test_warmup_and_incomplete_steps_are_left_out(self):
        # GIVEN a first step to warm up, on both sides, and one that an exception left, on one side
        sides = [recording(numbers=range(5)), recording(numbers=range(6), longer=10 * US)]
        for side in sides:
            side.tables["steps"].loc[0, ["warmup", "end_ns"]] = [True, 10**9]
        sides[1].tables["steps"].loc[3, ["complete", "end_ns"]] = [False, sides[1].tables["steps"].loc[3, "start_ns"]]
        # THEN neither is a pair, nor without a partner
        found = compare(*sides)
        assert (len(found.steps), found.steps.left_out, found.steps.unmatched_b) == (3, 2, (5,))
        length = found.figures[0]
        assert (length.n, length.delta_p10_ns, length.delta_p90_ns) == (3, 10 * US, 10 * US)

    def test_of_steps_that_do_not_count_nothing_is_said(self):
        side = recording()
        side.tables["steps"]["warmup"] = True
        with pytest.raises(Incomparable, match="all are warm-up or incomplete"):
            compare(side, recording())

    @pytest.mark.parametrize(("first", "last"), [(0, 8), (3, 8), (0, 5), (2, 6)])
    def test_by_length_finds_where_a_capture_began(self, first, last):
        """A capture of a part of the run, its lengths a microsecond off, its steps counted from 0."""
        lengths = np.array([900, 400, 410, 700, 405, 950, 420, 800]) * US
        pairs = match_by_length(steps(lengths), steps(lengths[first:last] + US, start=10**9))
        assert pairs.a.tolist() == list(range(first, last))
        assert pairs.unmatched_a == (*range(first), *range(last, 8))
        assert pairs.unmatched_b == ()

    def test_equal_lengths_are_matched_in_order(self):
        pairs = match_by_length(steps([500 * US] * 5), steps([500 * US] * 5))
        assert pairs.a.tolist() == pairs.b.tolist() == [0, 1, 2, 3, 4]

    def test_another_run_is_refused(self):
        with pytest.raises(Incomparable, match=r"not see the same run.*; compare a recording with the capture"):
            match_by_length(steps([500 * US] * 5), steps([900 * US] * 5))

    def test_no_common_number_is_refused(self):
        with pytest.raises(Incomparable, match="steps 0 to 1 and steps 7 to 8"):
            match_by_number(steps([5, 6]), steps([5, 6], first=7))


class TestTwoViewsOfOneRun:
    def test_they_agree(self):
        found = compare(recording(), recording("nsys", origin=10**12, longer=2 * US))
        assert (found.same_run, found.agrees) == (True, True)
        assert found.clock_offset_ns == -(10**12)
        (work,) = found.device_work
        # 40 µs behind the span's begin, 60 before its end, and 20 of err: 60 inside at least
        assert (work.name, work.n, work.inside, work.worst_ns) == ("forward", 6, 6, -60 * US)
        (copies,) = found.copies
        assert (copies.a_copies, copies.b_copies, copies.timed, copies.within) == (12, 12, 12, 12)

    def test_the_order_of_the_two_does_not_matter(self):
        found = compare(recording("nsys", origin=10**12, longer=2 * US), recording())
        assert found.agrees is True
        assert [(own.inside, own.worst_ns) for own in found.device_work] == [(6, -60 * US)]

    def test_host_times_beyond_what_ranges_cost_differ(self):
        found = compare(recording(), recording("nsys", longer=6 * US))
        told = {(own.name, own.figure): own.verdict for own in found.figures}
        assert told["forward", "host_ns"] == told["step", "length"] == "differs"
        assert found.agrees is False

    def test_work_outside_the_events_differs(self):
        outside = recording("nsys")
        outside.tables["phases"]["span_ns"] += 81 * US  # 300 - 40 - 200 + 20 of err are left
        found = compare(recording(), outside)
        assert [(own.inside, own.worst_ns, own.verdict) for own in found.device_work] == [(0, 1 * US, "differs")]

    def test_a_copy_that_only_the_profiler_saw_differs(self):
        found = compare(recording(copies=1), recording("nsys", copies=2))
        (copies,) = found.copies
        assert (copies.verdict, copies.steps_that_differ) == ("differs", 6)

    def test_a_profiler_that_saw_no_device_says_nothing_of_copies(self):
        """A run on the CPU under torch.profiler: it has no kernels and no copies to see."""
        blind = recording("kineto", copies=0, configuration={"absent": ["calls", "copies", "kernels"]})
        (copies,) = compare(recording(), blind).copies
        assert (copies.a_copies, copies.b_copies, copies.verdict) == (12, 0, "not judged")
        assert copies.reason == "the capture holds no work of a device"
        lost = recording("kineto", copies=0, configuration={"absent": ["copies"]})
        assert [own.verdict for own in compare(recording(), lost).copies] == ["differs"]

    def test_copies_inside_graphs_and_of_the_framework_are_not_judged(self):
        seen = recording("nsys")
        copies = seen.tables["copies"]
        copies.loc[0, "graph_node"] = 5
        copies.loc[1, "direction"] = "d2d"
        found = compare(recording(copies=0), seen)
        told = {own.direction: (own.b_copies, own.verdict) for own in found.copies}
        assert told == {"h2d": (10, "differs"), "d2d": (1, "not judged")}

    def test_a_capture_of_a_part_names_the_other_steps(self):
        found = compare(recording(), recording("kineto", numbers=range(2, 5)))
        assert found.steps.unmatched_a == (0, 1, 5)


class TestTwoRuns:
    def test_they_are_laid_side_by_side_and_not_judged(self):
        found = compare(recording(), recording(longer=50 * US))
        assert (found.same_run, found.agrees, found.device_work) == (False, None, ())
        told = {(own.name, own.figure): own.delta_p50_ns for own in found.figures}
        assert told["forward", "host_ns"] == 50 * US

    def test_other_machines_are_named(self):
        one = recording(environment={"gpu_name": "NVIDIA H200"})
        two = recording(environment={"gpu_name": "NVIDIA B200"})
        assert compare(one, two).notes == ("gpu_name: NVIDIA H200 and NVIDIA B200",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modelled": True, "calibration": "h200", "device": "sim"}, "modelled and the other is measured"),
        ({"device": "cpu"}, "ran on the CPU alone"),
    ],
)
def test_what_must_not_be_compared(values, message):
    with pytest.raises(Incomparable, match=message):
        compare(recording(), changed(recording(), **values))


@pytest.mark.parametrize("modelled", [True, False])
def test_every_page_of_two_modelled_runs_says_so(modelled):
    values = {"modelled": modelled, "calibration": "h200: NVIDIA H200, driver 580" if modelled else None}
    found = compare(changed(recording(), **values), changed(recording(), **values))
    for format_ in ("text", "md", "html"):
        page = render_comparison(found, format_, name="x")
        assert ("with costs of the calibration h200: NVIDIA H200, driver 580." in page.replace("\n", " ")) == modelled
    head = json.loads(render_comparison(found, "json", name="x"))
    assert (head["modelled"], head["calibration"]) == (modelled, values["calibration"])


def test_two_calibrations_must_not_be_compared():
    one, two = (changed(recording(), modelled=True, calibration=name) for name in ("h200", "b200"))
    with pytest.raises(Incomparable, match="h200 and b200"):
        compare(one, two)


def test_sides_without_steps_or_with_many_ranks_are_refused():
    with pytest.raises(Incomparable, match="the second has no steps"):
        compare(recording(), recording("nsys", numbers=()))
    many = recording()
    many.tables["steps"].loc[0, "pid"] = 8
    with pytest.raises(Incomparable, match="2 processes with steps"):
        compare(many, recording())


class TestWhatDiffersBeforeTheTimes:
    def test_parameters_of_two_runs_are_listed_in_their_order(self):
        first = {"runner": {"staging": "pinned_ring", "graph_mode": "full"}, "workload": {"settings": {"num_reqs": 64}}}
        second = {"runner": {"staging": "pageable", "graph_mode": "full"}, "workload": {"settings": {"num_reqs": 256}}}
        found = compare(recording(configuration=first), recording(configuration=second))
        assert [(own.name, own.a, own.b) for own in found.settings] == [
            ("workload.settings.num_reqs", "64", "256"), ("runner.staging", "pinned_ring", "pageable"),
        ]  # fmt: skip
        assert found.work == ()

    def test_other_phases_and_other_rows_are_other_work(self):
        one, other = recording("kineto"), recording("kineto")
        one = changed_steps(one, num_reqs=64, num_launches=17)
        other = changed_steps(other, num_reqs=256, num_launches=17)
        other.tables["phases"]["name"] = pd.array(["sample"] * len(other.tables["phases"]), dtype="string")
        found = compare(one, other)
        assert [(own.name, own.a, own.b) for own in found.work] == [
            ("rows a step (median)", "64", "256"), ("phases", "forward", "sample"),
        ]  # fmt: skip
        assert found.settings == ()

    def test_two_views_of_one_run_are_not_asked(self):
        found = compare(recording(configuration={"runner": {"staging": "pageable"}}), recording("nsys"))
        assert (found.settings, found.work) == ((), ())


def changed_steps(found, **values):
    for name, value in values.items():
        found.tables["steps"][name] = pd.array([value] * len(found.tables["steps"]), dtype="Int64")
    return found
