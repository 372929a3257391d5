"""Times around 2^60 ns with nulls between them: every public function gives what it gives around 0."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
from stepscope.analysis.exposure import exposure
from stepscope.analysis.findings import findings
from stepscope.analysis.gaps import gaps
from stepscope.analysis.overlap import copy_overlap
from stepscope.analysis.padding import padding
from stepscope.analysis.phases import phase_steps, phase_summary
from stepscope.analysis.pinned import pinned_reuse
from stepscope.analysis.summary import summarise
from stepscope.analysis.what_if import faster_phase, what_if

BASE = 2**60

QUESTIONS: dict[str, Callable] = {
    "exposure": lambda r: [exposure(r).steps, exposure(r).exposed_step_ns, exposure(r).misfit_ns],
    "findings": lambda r: [[(f.code, f.weight, dict(f.values)) for f in findings(summarise(r))]],
    "gaps": lambda r: [gaps(r).steps, gaps(r).shares],
    "overlap": lambda r: [copy_overlap(r)],
    "padding": lambda r: [padding(r).sizes, padding(r).dispatch, padding(r).time_waste_ns],
    "phase_steps": lambda r: [phase_steps(r).drop(columns="start_ns")],
    "phase_summary": lambda r: [phase_summary(r).host, phase_summary(r).ranges, phase_summary(r).device],
    "pinned": lambda r: [pinned_reuse(r)],
    "summary": lambda r: [dict(summarise(r).metrics), dict(summarise(r).reasons)],
    "what_if": lambda r: [what_if(r, faster_phase()).saved_ns, what_if(r, faster_phase()).period_ns],
}


def holed(lab, steps, base: int):
    """A run with nulls in every table, among them the first and the last times of a column."""
    made = steps(lab(base, pid=7), 12)
    made.rows["copies"][2]["start_ns"] = None
    made.rows["copies"][4]["err_ns"] = None
    made.rows["copies"][-1]["enqueue_end_ns"] = None
    made.rows["steps"][3]["period_ns"] = None
    made.rows["steps"][4]["start_ns"] = None
    made.rows["phases"][5]["host_ns"] = None
    made.rows["waits"][6]["awaited"] = None
    made.rows["waits"][7]["end_ns"] = None
    made.rows["edges"][8]["waiting"] = None
    named = [row for row in made.rows["spans"] if row["name"] == "build_indices"]
    named[1]["start_ns"] = None
    kernels = [row for row in made.rows["spans"] if row["kind"] == "kernel"]
    kernels[-1]["end_ns"] = None
    kernels[9]["correlation"] = None
    return made.recording()


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_base_of_the_clock_does_not_matter(lab, steps, name: str) -> None:
    near, far = QUESTIONS[name](holed(lab, steps, 0)), QUESTIONS[name](holed(lab, steps, BASE))
    for small, large in zip(near, far, strict=True):
        if isinstance(small, pd.DataFrame):
            pd.testing.assert_frame_equal(small, large)
            assert not any(pd.api.types.is_object_dtype(dtype) for dtype in small.dtypes)
        else:
            assert small == large


def test_absolute_times_stay_exact(lab, steps) -> None:
    table = phase_steps(holed(lab, steps, BASE))
    assert str(table["start_ns"].dtype) == "Int64"
    expected = [row["start_ns"] for row in steps(lab(BASE), 12).rows["steps"]]
    found = [None if pd.isna(value) else int(value) for value in table["start_ns"]]
    assert found == [*expected[:4], None, *expected[5:]]


def test_the_recording_is_left_as_it_was(lab, steps) -> None:
    recording = holed(lab, steps, BASE)
    before = {name: recording.table(name).copy(deep=True) for name in recording.rows}
    summarise(recording)
    for name, frame in before.items():
        pd.testing.assert_frame_equal(recording.table(name), frame)
