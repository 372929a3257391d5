"""Phases close to the period; host and device figures stay apart; what does not count is left out and counted."""

from __future__ import annotations

import pytest
from stepscope.analysis.phases import phase_steps, phase_summary

BASES = [0, 2**60]


def host(name: str, step: int, host_ns: int | None, **device: int) -> dict:
    return {"step": step, "name": name, "host_ns": host_ns, **device}


@pytest.mark.parametrize("base", BASES)
def test_medians_shares_and_closing_of_a_run(lab, steps, base: int) -> None:
    made = steps(lab(base), 5)
    summary = phase_summary(made.recording())
    row = {line["name"]: line for line in summary.host.to_dict("records")}
    # preprocess: 4 + 60 + 4 + 4 + 40; forward: a launch; sample: until the tokens are there; 10 between
    assert [row[name]["p50_ns"] for name in ("preprocess", "forward", "between_steps")] == [112, 4, 10]
    assert sum(line["share"] for line in row.values()) == pytest.approx(1.0)
    assert (summary.steps_counted, summary.closing_checked, summary.closing_worst) == (5, 4, 0.0)
    assert [line["name"] for line in summary.ranges.to_dict("records")] == ["build_indices"]
    assert summary.ranges.iloc[0]["p50_ns"] == 60
    assert summary.ranges.iloc[0]["share"] == pytest.approx(60 / 112)


def test_warmup_incomplete_and_null_do_not_count(source) -> None:
    steps = [
        {"step": 0, "period_ns": 900, "warmup": True, "complete": True},
        {"step": 1, "period_ns": 100, "warmup": False, "complete": True},
        {"step": 2, "period_ns": 100, "warmup": False, "complete": False},
        {"step": 3, "period_ns": None, "warmup": False, "complete": True},
        {"step": 4, "period_ns": 100, "warmup": None, "complete": None},
    ]
    phases = [host("preprocess", number, 40 + number) for number in range(4)]
    phases += [host("preprocess", 4, None), host("forward", 1, 59), host("sample", 1, 0), host("between_steps", 1, 5)]
    summary = phase_summary(source(steps=steps, phases=phases))
    assert (summary.steps_counted, summary.steps_warmup, summary.steps_incomplete) == (3, 1, 1)
    row = summary.host.iloc[0]
    assert (row["n"], row["p10_ns"], row["p50_ns"], row["p90_ns"]) == (2, 41, 42.0, 43)
    assert row["share"] == 0.41  # step 3 has no period
    assert (summary.closing_checked, summary.closing_share) == (1, 0.0)
    assert summary.closing_worst == pytest.approx(0.05)


def test_device_figures_are_null_where_not_measured_and_never_added_to_host(source) -> None:
    steps = [{"step": 0, "period_ns": 100, "complete": True}]
    phases = [host("preprocess", 0, 40, span_ns=300, busy_ns=None), host("forward", 0, 60, span_ns=500, starved_ns=20)]
    device = phase_summary(source(steps=steps, phases=phases)).device.set_index(["name", "figure"])
    assert device.loc[("preprocess", "span_ns"), "p50_ns"] == 300
    assert device.loc[("forward", "starved_ns"), "p50_ns"] == 20
    assert device.loc[("forward", "busy_ns"), "n"] == 0
    assert device["p50_ns"].isna().sum() == 6
    table = phase_steps(source(steps=steps, phases=phases))
    assert table["preprocess_ns"].tolist() == [40]
    assert table["sum_ns"].isna().all()


def test_a_phase_that_occurs_twice_is_summed_and_half_a_sum_is_none(source) -> None:
    steps = [{"step": number, "complete": True} for number in range(2)]
    phases = [host("forward", 0, 40), host("forward", 0, 2), host("forward", 1, 40), host("forward", 1, None)]
    table = phase_steps(source(steps=steps, phases=phases))
    assert table["forward_ns"].isna().tolist() == [False, True]
    assert table["forward_ns"][0] == 42


def test_half_nanoseconds_of_a_median_are_exact(source) -> None:
    steps = [{"step": number, "period_ns": 2**51 + number, "complete": True} for number in range(2)]
    phases = [host("preprocess", number, 2**51 + number) for number in range(2)]
    assert phase_summary(source(steps=steps, phases=phases)).host.iloc[0]["p50_ns"] == 2**51 + 0.5


def test_two_processes_with_the_same_step_numbers_stay_apart(lab, steps) -> None:
    one, two = steps(lab(pid=1), 3), steps(lab(pid=2), 3, build_ns=600)
    merged = one.recording()
    merged.rows = {name: one.rows[name] + two.rows[name] for name in one.rows}
    table = phase_steps(merged)
    assert table["pid"].tolist() == [1, 1, 1, 2, 2, 2]
    assert table["preprocess_ns"].tolist() == [112] * 3 + [652] * 3
    assert phase_summary(merged).steps_counted == 6


def test_an_empty_recording_has_no_figures(source) -> None:
    summary = phase_summary(source())
    assert summary.steps_counted == 0
    assert summary.host["p50_ns"].isna().all()
    assert summary.closing_worst is None


@pytest.mark.parametrize("base", BASES)
def test_a_range_of_any_name_is_a_part_of_preprocess_where_it_began_inside(source, base: int) -> None:
    # GIVEN an engine's own ranges: one inside preprocess, one between two steps, one of a name that is in both
    def span(step: int, name: str, start: int, end: int, kind: str = "range") -> dict:
        return {
            "step": step, "name": name, "kind": kind, "lane": "host:main", "start_ns": base + start,
            "end_ns": base + end,
        }  # fmt: skip

    spans, phases = [], []
    for step in range(3):
        at = 1000 * step
        phases.append(host("preprocess", step, 100))
        spans += [
            span(step, "preprocess", at, at + 100, "phase"), span(step, "gather", at, at + 60),
            span(step, "log", at + 60, at + 80), span(step, "log", at + 300, at + 400),
            span(step, "admit", at + 100, at + 200),
        ]  # fmt: skip
    steps = [{"step": number, "period_ns": 1000, "complete": True} for number in range(3)]
    ranges = phase_summary(source(steps=steps, phases=phases, spans=spans)).ranges.set_index("name")
    assert ranges["p50_ns"].to_dict() == {"gather": 60, "log": 120, "admit": 100}
    assert ranges["share"].fillna(-1).to_dict() == {"gather": 0.6, "log": 0.2, "admit": -1}


@pytest.mark.parametrize("base", BASES)
def test_a_range_inside_its_own_name_is_counted_once(source, base: int) -> None:
    # GIVEN a function that calls itself twice, and runs beside that on another lane
    def span(step: int, start: int, end: int, lane: str = "host:main") -> dict:
        times = {"start_ns": base + start, "end_ns": base + end}
        return {"step": step, "name": "walk", "kind": "range", "lane": lane, **times}

    spans = []
    for step in range(2):
        at = 1000 * step
        spans += [span(step, at + 20, at + 30), span(step, at + 10, at + 40), span(step, at, at + 100)]
        spans += [span(step, at + 200, at + 210), span(step, at + 20, at + 25, "host:other")]
    steps = [{"step": number, "period_ns": 1000, "complete": True} for number in range(2)]
    # THEN its time is that of the outermost calls
    assert phase_summary(source(steps=steps, spans=spans)).ranges["p50_ns"].tolist() == [115]


def test_what_of_the_periods_lies_in_phases(source) -> None:
    steps = [{"step": number, "period_ns": 100 if number < 3 else None, "complete": True} for number in range(4)]
    phases = [host("preprocess", number, 20) for number in range(4)]
    phases += [host("forward", 1, 30), host("forward", 2, None)]
    # the forward of step 2 took a time that nobody knows: nothing is said of that step
    assert phase_summary(source(steps=steps, phases=phases)).covered == pytest.approx(70 / 200)
    assert phase_summary(source(phases=phases)).covered is None
