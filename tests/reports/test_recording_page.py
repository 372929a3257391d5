"""Figures of the hand-made recording against what the rule of its steps gives on paper."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pandas as pd
import pytest
from stepscope.instrumentation.recording import Diagnostic, Recording
from stepscope.instrumentation.recording.meta import DROPPED, KILLED
from stepscope.reports import render
from stepscope.reports.pages.headline import phase_words
from stepscope.reports.views.copies import gather_copies
from stepscope.reports.views.phases import gather_phases


def test_phases_add_up(recordings):
    view = gather_phases(recordings(6))
    assert view.mean_ns == {"preprocess": 300_000, "forward": 100_000, "sample": 500_000, "between_steps": 100_000}
    assert (view.period_p50_ns, view.num_steps, view.summary.steps_counted) == (1_000_000, 6, 5)


@pytest.mark.parametrize(("copy_us", "exposed_us"), [(100, 0), (125, 0), (200, 49)])
def test_exposure_is_what_the_first_reader_waited_for(recordings, copy_us, exposed_us):
    view = gather_copies(recordings(6, copy_us=copy_us))
    assert view.figure("copy").p50_ns == copy_us * 1_000
    assert view.figure("exposed").p50_ns == exposed_us * 1_000
    assert view.figure("hidden").p50_ns == (copy_us - exposed_us) * 1_000


def test_a_recording_without_copies_says_so_everywhere(recordings):
    view = gather_copies(recordings(0))
    assert {figures.p50_ns for figures in view.figures} == {None}
    assert view.figure("exposed").reason == "no copy of the buffer was recorded in a counted step"


def test_shares_in_the_answer_are_of_all_periods_and_not_of_the_sum_of_medians(recordings):
    # GIVEN five counted steps of 1 ms, the last of which takes 4 ms longer in `sample`
    recording = recordings(6)
    phases, steps = recording.tables["phases"], recording.tables["steps"]
    late = (phases["step"] == 5) & (phases["name"] == "sample")
    phases.loc[late, "host_ns"] += 4_000_000
    steps.loc[steps["step"] == 5, "period_ns"] += 4_000_000

    # THEN the median does not move, and its share is 6.5 of 9 ms
    words = " ".join(render(recording, "text").split())
    assert "sample 500 µs (72.2 %), preprocess 300 µs (16.7 %)" in words


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1, None),
        (0.1, "The other 45.0 % of the time lies in no phase."),
        (2, "Together that is 150 % of the time: phases nest, which they must not, and count twice."),
    ],
)
def test_phases_that_do_not_add_up_are_told_in_the_answer(recordings, factor, words):
    # GIVEN steps of 1 ms, half of it in `sample`, of which the probe sees a part, or which lies in another phase, too
    recording = recordings(6)
    phases = recording.tables["phases"]
    sample = phases["name"] == "sample"
    phases.loc[sample, "host_ns"] = (phases.loc[sample, "host_ns"] * factor).astype("Int64")
    told = phase_words(gather_phases(recording))
    assert words in told if words else "of the time" not in told


def test_medians_over_several_kinds_of_step_that_do_not_add_up_are_explained(recordings):
    # GIVEN five counted steps of 1 ms: two of prompts, which forward for 2 ms more, and one that samples for 2 ms more
    recording = recordings(6)
    phases, steps = recording.tables["phases"], recording.tables["steps"]
    steps["num_decode"] = 1
    for slow, phase in (([2, 4], "forward"), ([5], "sample")):
        phases.loc[phases["step"].isin(slow) & (phases["name"] == phase), "host_ns"] += 2_000_000
        steps.loc[steps["step"].isin(slow), "period_ns"] += 2_000_000
    assert "add up to" not in phase_words(gather_phases(recording))  # of one kind
    # WHEN they are of several kinds THEN that stands beside the medians, in each format
    steps["num_prefill"] = steps["step"].isin([2, 4, 5]).astype("Int64")
    steps.loc[steps["step"].isin([2, 4]), "num_decode"] = 0
    why = (
        "These medians add up to 33.3 % of the median period: counted steps are of several kinds (2 prefill, 1 mixed,"
        " 2 decode), and the median of one phase lies in other steps than that of another."
    )
    for format_ in ("text", "md", "html"):
        told = re.sub(r"</?span[^>]*>", "", render(recording, format_, name="x"))
        assert why in " ".join(told.split())
    # AND where the medians add up, or a kind is not known, there is nothing to say
    assert "add up to" not in phase_words(gather_phases(recordings(6)))
    steps["num_prefill"] = pd.array([None] * len(steps), dtype="Int64")
    assert "add up to" not in phase_words(gather_phases(recording))


def test_the_largest_range_is_that_of_a_usual_step_and_one_wherever_it_is_told(recordings):
    # GIVEN steps whose largest range is build_indices (120 us), a slow step in update_states, and a range of 250 us
    # that one step has
    recording = recordings(6)
    spans = recording.tables["spans"]
    slow = (spans["step"] == 5) & (spans["name"] == "update_states")
    spans.loc[slow, "end_ns"] += 5_000_000
    once = spans[(spans["step"] == 3) & (spans["name"] == "update_states")].assign(name="compact")
    once["end_ns"] += 190_000
    recording.tables["spans"] = pd.concat([spans, once], ignore_index=True)
    # THEN the answer names what the advice names
    words = " ".join(render(recording, "text").split())
    assert "The largest part of preprocess is build_indices, 120 µs." in words
    assert "(its largest range: build_indices, 120 µs)" in words


def test_the_answers_carry_the_figures(recordings):
    text = render(recordings(6, copy_us=200), "text")
    assert "sample 500 µs (50.0 %), preprocess 300 µs (30.0 %)" in " ".join(text.split())
    assert "24.5 % of it, 49.0 µs, is exposed" in " ".join(text.split())
    assert "2 of 2 staged buffers are pinned; a slot is reused up to 2 times." in text
    assert "4 of 5 counted steps replayed a graph; 25.0 % of their tokens are padding." in text


@pytest.mark.parametrize("form", ["text", "md", "html"])
def test_that_a_recording_is_not_whole_stands_before_all_figures(recordings, form):
    made = recordings(6)
    assert "What this recording lacks" not in render(made, form)
    about = made.meta.with_diagnostics(Diagnostic("steps", "complete", f"7 {DROPPED}"))
    page = render(Recording(about.with_history(f"{KILLED}; 3 torn bytes cut"), made.tables), form)
    for words in ("7 rows were dropped while recording.", "The run was killed; 3 torn bytes cut."):
        assert 0 < page.index(words) < page.index("A step takes")


def test_a_hazard_is_loud(recordings):
    rec = recordings(6)
    rec.tables["buffers"].loc[3, "hazard"] = "observed"
    text = render(rec, "text")
    assert "UNSAFE: 1 uses were overwritten while their copy was in flight" in " ".join(text.split())


def test_warm_up_without_steady_steps_is_not_measured_not_zero(recordings):
    answer = render(recordings(1), "text").split("Where the step's time goes")[0]
    assert answer.count("Not measured") == 3  # buffers are counted over all steps
    assert "0 of 1 steps are counted (1 warm-up and 0 incomplete steps are left out)." in render(recordings(1), "text")


def test_json_names_units_and_holds_reasons(recordings):
    content = json.loads(render(recordings(6), "json"))["content"]
    assert content["copies"]["figures"][0]["p50_ns"] == 100_000
    assert content["summary"]["metrics"]["exposed_p50_ns"] == 0
    nulls = {name for name, value in content["summary"]["metrics"].items() if value is None}
    assert nulls == set(content["summary"]["reasons"])
    assert content["phases"]["summary"]["device"][2] == {
        "name": "preprocess", "figure": "busy_ns", "n": 0, "p10_ns": None, "p50_ns": None, "p90_ns": None,
    }


def test_diagnostics_count_the_nulls(recordings):
    lines = render(recordings(6), "md").splitlines()
    assert "| phases | busy\\_ns | 24 | 100.0 | nobody profiled the device |" in lines


def test_copies_of_several_names_are_told_apart(recordings):
    # GIVEN a run in which two of five steps sent their block table as changed rows
    rec = recordings(6, copy_us=200)
    copies = rec.tables["copies"]
    chosen = copies.index[copies["buffer"] == "block_table"][-2:]
    copies.loc[chosen, "buffer"] = "block_rows"
    text = " ".join(render(rec, "text").split())
    assert "copies of block_table" in text
    assert "The other buffers with block tables, block_rows (2 copies), have figures of their own below." in text


@pytest.mark.parametrize(("latency_us", "said"), [(1_600, True), (1_000, False), (None, False)])
def test_steps_that_overlap_are_said_to(recordings, latency_us, said):
    rec = recordings(6)  # periods of 1000 us
    rec.tables["steps"]["latency_ns"] = pd.array([latency_us and latency_us * 1_000] * 6, dtype="Int64")
    words = "Steps overlap: a step's tokens are with the host 1.60 ms after it began (median)."
    assert (words in " ".join(render(rec, "text").split())) is said


def test_medians_and_shares_that_rank_phases_differently_are_explained(recordings):
    # GIVEN five counted steps of 1 ms (sample 500 µs, preprocess 300 µs), the last with 4 ms more in preprocess
    recording = recordings(6)
    assert "rank the phases differently" not in render(recording, "text", name="x")
    phases, steps = recording.tables["phases"], recording.tables["steps"]
    phases.loc[(phases["step"] == 5) & (phases["name"] == "preprocess"), "host_ns"] += 4_000_000
    steps.loc[steps["step"] == 5, "period_ns"] += 4_000_000
    # THEN sample has the larger median and preprocess the larger share, and the answer says why
    text = " ".join(render(recording, "text", name="x").split())
    assert "in brackets the share of the sum of all periods: sample 500 µs (27.8 %), preprocess 300 µs (61.1 %)" in text
    assert "Slow steps weigh in the shares and not in the medians, so the two rank the phases differently." in text


def test_a_queue_delay_is_never_below_zero(recordings):
    recording = recordings(6)
    assert "began before their call returned" not in render(recording, "text", name="x")
    copies = recording.tables["copies"]
    copies["enqueue_end_ns"] = copies["start_ns"] + 10_000
    text = " ".join(render(recording, "text", name="x").split())
    assert "copies began before their call returned, or within the times' error of it; the median is at most" in text
    assert not re.search(r"queue delay +\d+ +-", render(recording, "text", name="x"))


def test_pipelined_steps_are_told_by_their_pace(recordings):
    # GIVEN a view of steps that wait for their own tokens, and the same with a pace
    view = gather_phases(recordings(6))
    assert (view.step_ns, view.step_words) == (view.period_p50_ns, "median period")
    paced = replace(view, pace_ns=4_060_000)
    assert phase_words(paced).startswith("A step takes 4.06 ms (pace of pipelined steps). ")
    assert phase_words(view).startswith("A step takes ")
