"""The metric row: nothing missing, nothing guessed, the figures of a run that one can work out by hand."""

from __future__ import annotations

import json
import math

import pytest
from stepscope.analysis.arms import ArmPoint, pair_orders
from stepscope.analysis.findings import findings
from stepscope.analysis.summary import Summary, summarise

CALIBRATION = [{"name": "graph_ns", "key": f"m/{size}", "value": float(time)} for size, time in ((4, 70), (8, 90))]


def whole(lab, steps, base: int = 0, **options):
    """A run with every table filled."""
    made = steps(lab(base), 8, **options)
    for number, row in enumerate(made.rows["steps"]):
        row.update(padded_tokens=8, num_tokens=3, batch_overlap=0.5, num_h2d=2, num_launches=3, num_syncs=1,
                   num_moved_rows=number, latency_ns=600 + number, host_busy_ns=200, host_wait_ns=300)
        made.rows["dispatch"].append({"step": number, "num_tokens": 3, "num_reqs": 3, "size": 8, "mode": "full",
                                      "reason": "hit"})
        made.rows["buffers"].append({"step": number, "buffer": "block_table", "capacity_bytes": 100, "used_bytes": 10,
                                     "reserved_bytes": 128, "memory": "pinned", "slot": number % 2, "wait_ns": 0,
                                     "reuse_count": number // 2, "hazard": "none"})
    made.rows["calibration"] = CALIBRATION
    return made


@pytest.mark.parametrize("base", [0, 2**60])
def test_figures_of_a_synchronous_run(lab, steps, base: int) -> None:
    metrics = summarise(whole(lab, steps, base).recording()).metrics
    expected = {
        "exposed_p50_ns": 91, "hidden_p50_ns": 64, "hidden_by_host_p50_ns": 64, "exposed_step_ns": 54,
        "table_copy_p50_ns": 155, "table_copy_p50_bytes": 1024, "copied_h2d_p50_bytes": 2048, "queue_delay_p50_ns": 3,
        "latency_p50_ns": 603.5, "num_h2d": 2, "num_launches": 3, "num_syncs": 1, "num_moved_rows": 28, "num_waits": 8,
        "mean_batch_overlap": 0.5, "hazards_observed": 0, "hazards_possible": 0, "async_pageable": 0,
        "padding_token_share": 5 / 8, "padding_time_mean_ns": 20, "padding_time_ns": 160, "graph_hit_share": 1.0,
        "dispatch_full_share": 1.0, "dispatch_hit_share": 1.0, "dispatch_none_share": 0.0, "steps_counted": 8,
        "replay_misfit_ns": 0, "build_overlap_fraction": 57 / 155, "preprocess_overlap_fraction": 105 / 155,
        "buffer_reserved_bytes": 128, "preprocess_p50_ns": 112, "phases_close_share": 1.0,
        "host_bound_share": 1.0, "device_bound_share": 0.0,
    }
    assert {name: metrics[name] for name in expected} == expected


def test_a_copy_of_the_same_size_that_was_timed_behind_other_work_stands_beside_it(lab, steps) -> None:
    made = whole(lab, steps)
    own = {"name": "own_copy_ns", "value": 150.0}
    made.rows["calibration"] = [{**own, "key": "block_table/2048"}, {**own, "key": "ids/1024"}]
    assert summarise(made.recording()).metrics["table_copy_queued_ns"] is None
    made = whole(lab, steps)
    made.rows["calibration"] = [{**own, "key": "block_table/1024"}]
    assert summarise(made.recording()).metrics["table_copy_queued_ns"] == 150


def test_every_null_has_a_reason_and_only_nulls_do(lab, steps, source) -> None:
    for recording in (source(), whole(lab, steps).recording(), steps(lab(), 3).recording()):
        summary = summarise(recording)
        assert {name for name, value in summary.metrics.items() if value is None} == set(summary.reasons)
        assert all(summary.reasons.values())
        numbers = [value for value in summary.metrics.values() if value is not None]
        assert all(type(value) in (int, float) and math.isfinite(value) for value in numbers)
        json.dumps(dict(summary.metrics), allow_nan=False)


def test_an_empty_recording_measures_nothing(source) -> None:
    summary = summarise(source())
    known = {name for name, value in summary.metrics.items() if value is not None}
    assert known == {"steps_counted", "steps_warmup", "steps_incomplete", "num_waits"}
    assert {finding.code for finding in findings(summary)} == {"not_measured"}
    assert {finding.question for finding in findings(summary)} == {1, 2, 3, 4}


def test_the_recordings_own_reason_is_preferred(source) -> None:
    class Meta:
        def reason(self, table: str, column: str) -> str | None:
            return "not applicable: device cpu" if (table, column) == ("steps", "num_launches") else None

    made = source(steps=[{"step": 0, "complete": True}])
    made.meta = Meta()
    reasons = summarise(made).reasons
    assert reasons["num_launches"] == "not applicable: device cpu"
    assert reasons["num_h2d"] == "no counted step has num_h2d"


def test_names_do_not_depend_on_the_data(lab, steps, source) -> None:
    assert list(summarise(source()).metrics) == list(summarise(whole(lab, steps).recording()).metrics)


def by_code(summary: Summary) -> dict:
    return {finding.code: finding for finding in findings(summary)}


def test_findings_of_a_run_rank_by_share_of_the_period(lab, steps) -> None:
    summary = summarise(whole(lab, steps).recording())
    found = by_code(summary)
    assert set(found) == {
        "largest_host_phase", "host_bound", "copy_partly_hidden", "copy_costs_period", "no_hazard",
        "reserved_more_than_asked", "padding_costs_time", "not_measured",
    }
    assert found["copy_partly_hidden"].values["hidden_by"] == "host"
    assert found["largest_host_phase"].values["phase"] == "sample"
    weights = [finding.weight for finding in findings(summary)]
    assert weights == sorted(weights, reverse=True)


def test_with_two_in_flight_the_copy_is_said_to_be_exposed_whatever_the_order(lab, steps) -> None:
    for order in ("first", "last"):
        found = by_code(summarise(whole(lab, steps, order=order, in_flight=2).recording()))
        assert found["copy_exposed"].values["exposed_ns"] == 155
        assert "device_bound" in found


def test_wrong_data_outweighs_lost_time(lab, steps) -> None:
    made = whole(lab, steps)
    made.rows["buffers"][3]["hazard"] = "observed"
    made.rows["copies"][0]["src_kind"] = "pageable"
    ranked = findings(summarise(made.recording()))
    assert [finding.code for finding in ranked[:2]] == ["hazard_observed", "async_copies_of_pageable_memory"]


def point(order: str, period: float | None, copy: float | None = 155.0, **rest) -> ArmPoint:
    metrics = {"period_p50_ns": period, "table_copy_p50_ns": copy, "exposed_step_ns": 54}
    return ArmPoint(order, {"runner.commit_order": order, "workload.seed": 0, **rest}, Summary(metrics, {}))


def test_orders_of_pipelined_steps_are_paired_by_their_paces() -> None:
    # GIVEN separate runs whose single periods say nothing
    def run(order: str, period: int, pace: int | None, in_flight: int) -> ArmPoint:
        metrics = {"period_p50_ns": period, "pace_ns": pace, "steps_in_flight": in_flight}
        return ArmPoint(order, {"runner.commit_order": order}, Summary(metrics, {}))

    assert pair_orders([run("first", 9, 1_100, 2), run("skip", 9, 1_000, 1)])["first_minus_skip_ns"][0] == 100
    # AND where one of them has no pace, or none is pipelined, all are told by their periods
    assert pair_orders([run("first", 10, 1_100, 2), run("skip", 4, None, 2)])["first_minus_skip_ns"][0] == 6
    assert pair_orders([run("first", 10, 1_100, 1), run("skip", 4, 1_000, 1)])["first_minus_skip_ns"][0] == 6


def test_orders_are_paired_at_equal_other_parameters() -> None:
    # the first row of the house's H200 table: skip 625, first 679, last 769
    table = pair_orders([
        point("first", 679), point("last", 769), point("skip", 625, None), point("first", 9, width=512),
        point("last", 7.5, width=[1]), point("skip", 5, width=[1]),
    ])
    assert len(table) == 2
    row = table.iloc[0]
    assert (row["first_minus_skip_ns"], row["last_minus_first_ns"], row["last_minus_skip_ns"]) == (54, 90, 144)
    assert (row["copy_ns"], row["unexplained_ns"], row["exposed_step_ns"]) == (155, -11, 54)
    assert table["width"].isna().tolist() == [True, False]
    assert table.iloc[1]["last_minus_skip_ns"] == 2.5
    assert table["first_minus_skip_ns"].isna().tolist() == [False, True]


def test_repeats_are_averaged_and_a_missing_figure_stays_missing() -> None:
    table = pair_orders([point("first", 10), point("first", 13), point("last", 20), point("skip", None),
                         point("skip", 4)])
    assert table.iloc[0]["last_minus_first_ns"] == 8.5
    assert table["first_minus_skip_ns"].isna().all()
    assert len(pair_orders([point("first", 10)])) == 0
