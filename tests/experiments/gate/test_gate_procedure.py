"""The procedure: what is measured again, what fails, what never passes; launches are made of numbers."""

from __future__ import annotations

import json
from datetime import date, datetime

import pytest
from stepscope.analysis.gate.conditions import Conditions
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.experiments.gate import announce, arms, calibrating, procedure
from stepscope.experiments.gate.arms import parse_arm
from stepscope.experiments.gate.launch import PointLaunch
from stepscope.experiments.gate.procedure import run_gate
from stepscope.experiments.gate.request import GateRequest
from stepscope.reports.gate.formats import FORMATS
from stepscope.reports.gate.result_json import render_result

from .in_process import OPENED, Script, made_launch

TODAY = date(2026, 11, 30)
SPEC = "workload: {regime: steady}\ngrid: {workload.settings.num_reqs: [8, 16]}\n"


@pytest.fixture
def request_of(tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC)

    def make(head=(), **changed):
        both = (parse_arm("base", []), parse_arm("head", head))
        return GateRequest(both, tmp_path / "spec.yaml", calibration=tmp_path / "aa.json", **changed)

    return make


@pytest.fixture
def calibrated(request_of, monkeypatch):
    """A calibration of equal arms in the file that every request names."""
    script = Script(lambda name, number: made_launch(100 + number))
    monkeypatch.setattr(procedure, "measure_launch", script)
    calibrating.run_calibration(request_of(), lambda line: None, lambda: TODAY)
    return script


@pytest.fixture
def gated(request_of, monkeypatch):
    def run(make, request=None):
        script = Script(make)
        monkeypatch.setattr(procedure, "measure_launch", script)
        said = []
        found = run_gate(request or request_of(), said.append, lambda: TODAY)
        return found.result, script, said

    return run


def verdicts(result, metric="period_p50_ns"):
    return {one.point: (one.verdict, one.reason) for one in result.suite.points if one.metric == metric}


def test_equal_arms_pass_after_five_launches_and_no_fresh_one(calibrated, gated):
    result, script, _ = gated(lambda name, number: made_launch(number))
    assert result.suite.verdict is Verdict.PASS
    assert script.asked == [(number, ("num_reqs=8", "num_reqs=16")) for number in range(5)]
    assert (result.kind, result.base, result.head) == ("paired", "as installed", "as installed")
    assert result.machine["gpu"] == "NVIDIA H200"


def test_a_slower_point_fails_on_fresh_launches_and_names_its_place(calibrated, gated):
    result, script, said = gated(lambda name, number: made_launch(number, 0.05 * (name == "num_reqs=16")))
    assert script.asked[5:] == [(number, ("num_reqs=8", "num_reqs=16")) for number in range(5, 10)]  # both: geomean
    assert verdicts(result)["num_reqs=16"] == (Verdict.FAIL, Reason.CONFIRMED_FRESH)
    assert verdicts(result)["num_reqs=8"][0] is Verdict.PASS
    assert verdicts(result, "preprocess_p50_ns")["num_reqs=16"][0] is Verdict.FAIL
    assert verdicts(result, "forward_p50_ns")["num_reqs=16"][0] is Verdict.PASS
    (told,) = [one.detail for one in result.suite.points
               if (one.point, one.metric) == ("num_reqs=16", "period_p50_ns")]
    assert told == "in preprocess / build_indices"
    assert any(line.startswith("fresh launches for") for line in said)
    assert result.suite.exit_code == 1


@pytest.mark.parametrize(("device", "said"), [("sim", "modelled: "), ("cpu", "")])
def test_every_output_for_people_says_what_was_modelled(gated, device, said):
    opened = {**OPENED, "device": device, "calibration": "h200: NVIDIA H200, shape llama-1b" if said else None}

    def equal(name, number):
        one = made_launch(number)
        return PointLaunch({"base": opened, "head": opened}, one.values, one.conditions, one.head_first)

    result, _, _ = gated(equal)
    for name in ("text", "markdown", "html", "json", "junit", "github-summary"):
        written = " ".join(FORMATS[name].write(result).split())
        assert ("modelled: device times" in written) == bool(said), name
        assert not said or "calibration h200: NVIDIA H200, shape llama-1b" in written


def test_a_longer_tail_is_told_and_not_gated(calibrated, gated):
    result, script, _ = gated(lambda name, number: made_launch(number, tail=0.5))
    assert result.suite.verdict is Verdict.PASS
    assert len(script.asked) == 5
    assert [(one.point, one.metric) for one in result.beside] == [
        ("num_reqs=8", "period_p99_ns"), ("num_reqs=16", "period_p99_ns")
    ]  # fmt: skip
    (first, _) = result.beside
    assert first.effect == pytest.approx(0.5, abs=0.01)
    assert first.low < first.effect < first.high
    told = json.loads(render_result(result))
    assert (told["beside"][0]["metric"], told["beside"][0]["launches"]) == ("period_p99_ns", 5)
    assert "- not gated: num_reqs=8, period_p99_ns: +" in FORMATS["markdown"].write(result)
    assert "period_p99_ns" in FORMATS["html"].write(result)


def test_a_tail_is_gated_where_it_is_asked_for(calibrated, gated, request_of):
    result, _, _ = gated(lambda name, number: made_launch(number, tail=0.5), request_of(metrics=("period_p99_ns",)))
    assert set(verdicts(result, "period_p99_ns").values()) == {(Verdict.FAIL, Reason.CONFIRMED_FRESH)}


def test_the_result_says_when_and_of_which_commit(calibrated, gated, monkeypatch):
    monkeypatch.setattr(arms, "_our_commit", lambda: "4f0c2e1-dirty")
    result, _, _ = gated(lambda name, number: made_launch(number))
    assert datetime.fromisoformat(result.time).tzinfo is not None
    told = json.loads(render_result(result))
    assert (told["commit"], told["time"]) == (result.commit, result.time)
    assert result.commit == "4f0c2e1-dirty"


def test_what_only_the_first_launches_showed_does_not_fail(calibrated, gated):
    result, _, _ = gated(lambda name, number: made_launch(number, 0.05 * (number < 5)))
    assert result.suite.verdict is not Verdict.FAIL


def test_a_faster_head_passes_and_says_so(calibrated, gated):
    result, script, _ = gated(lambda name, number: made_launch(number, -0.05))
    assert set(verdicts(result).values()) == {(Verdict.PASS, Reason.FASTER)}
    assert len(script.asked) == 5


def test_nothing_fails_without_a_calibration(gated):
    result, _, _ = gated(lambda name, number: made_launch(number, 0.05))
    assert set(verdicts(result).values()) == {(Verdict.INCONCLUSIVE, Reason.NO_CALIBRATION)}
    assert "run perf gate calibrate" in result.notes[0]


@pytest.mark.parametrize(("opened", "limits", "day", "reason"), [
    ({**OPENED, "environment": {"gpu_name": "NVIDIA L4"}}, {}, TODAY, Reason.CALIBRATION_OTHER_MACHINE),
    (OPENED, {}, date(2026, 12, 31), Reason.CALIBRATION_EXPIRED),
    (OPENED, {"pairs": 4}, TODAY, Reason.CALIBRATION_OTHER_BLOCKS),
])  # fmt: skip
def test_a_calibration_that_does_not_hold_is_refused(calibrated, request_of, monkeypatch, opened, limits, day, reason):
    def slower(name, number):
        one = made_launch(number, 0.05, pairs=limits.get("pairs", 6))
        return PointLaunch({"base": opened, "head": opened}, one.values, one.conditions, one.head_first)

    monkeypatch.setattr(procedure, "measure_launch", Script(slower))
    request = request_of(limits=Limits(**limits))
    result = run_gate(request, lambda line: None, lambda: day).result
    assert set(verdicts(result).values()) == {(Verdict.INCONCLUSIVE, reason)}


def test_a_calibration_of_other_work_is_none(calibrated, request_of, monkeypatch):
    monkeypatch.setattr(procedure, "measure_launch", Script(lambda name, number: made_launch(number, 0.05)))
    result = run_gate(request_of(params=("seed=9",)), lambda line: None, lambda: TODAY).result
    assert set(verdicts(result).values()) == {(Verdict.INCONCLUSIVE, Reason.NO_CALIBRATION)}


def test_a_point_that_failed_is_an_error_and_is_not_tried_again(calibrated, gated):
    def make(name, number):
        return PointLaunch(failures={"head": "oom: no memory"}) if name == "num_reqs=8" else made_launch(number)

    result, script, _ = gated(make)
    (bad,) = [one for one in result.suite.points if one.point == "num_reqs=8"]
    assert (bad.verdict, bad.reason, bad.detail) == (Verdict.ERROR, Reason.ARM_FAILED, "head: oom: no memory")
    assert result.suite.exit_code == 3
    assert script.asked[1:] == [(number, ("num_reqs=16",)) for number in range(1, 5)]


def test_a_failure_in_the_last_launch_is_one_too(calibrated, gated):
    result, _, _ = gated(lambda name, number: PointLaunch(failures={"base": "killed"}) if number == 4
                         else made_launch(number))  # fmt: skip
    assert {one.reason for one in result.suite.points} == {Reason.ARM_FAILED}


def test_a_metric_that_one_arm_lacks_never_passes(calibrated, gated):
    def make(name, number):
        one = made_launch(number)
        del one.values["head"].timed["forward_p50_ns"]
        return one

    result, _, _ = gated(make)
    assert set(verdicts(result, "forward_p50_ns").values()) == {(Verdict.ERROR, Reason.NOT_MEASURED)}


@pytest.mark.parametrize(("value", "reason"), [
    (float("nan"), Reason.NOT_FINITE), (float("inf"), Reason.NOT_FINITE), (0.0, Reason.NOT_POSITIVE),
    (-1.0, Reason.NOT_POSITIVE),
])  # fmt: skip
@pytest.mark.parametrize("arm", ["base", "head"])
def test_what_is_no_time_never_passes(calibrated, gated, arm, value, reason):
    def make(name, number):
        one = made_launch(number)
        one.values[arm].timed["period_p50_ns"][2] = value
        return one

    result, _, _ = gated(make)
    assert set(verdicts(result).values()) == {(Verdict.ERROR, reason)}
    assert result.suite.exit_code == 3


def test_a_metric_that_is_asked_for_and_nobody_has_is_an_error(calibrated, gated, request_of):
    result, _, _ = gated(lambda name, number: made_launch(number), request_of(metrics=("sample_span_p50_ns",)))
    assert {(one.verdict, one.detail) for one in result.suite.points} == {(Verdict.ERROR, "base and head")}


def test_counts_are_compared_exactly(calibrated, gated):
    result, script, _ = gated(lambda name, number: made_launch(number, counts={"syncs": 51}))
    assert set(verdicts(result, "syncs").values()) == {(Verdict.FAIL, Reason.MORE)}
    assert set(verdicts(result, "h2d_count").values()) == {(Verdict.PASS, Reason.EQUAL)}
    assert verdicts(result, "padding_share") == {}  # neither arm padded anything
    assert len(script.asked) == 5  # a count needs no second look


def test_a_count_that_one_arm_lacks_is_an_error(calibrated, gated):
    result, _, _ = gated(lambda name, number: made_launch(number, counts={"padding_share": 0.5}))
    assert set(verdicts(result, "padding_share").values()) == {(Verdict.ERROR, Reason.NOT_MEASURED)}


def test_arms_on_different_devices_or_workloads_are_not_compared(calibrated, gated):
    def refused(name, number):
        return PointLaunch(refused=(Reason.OTHER_WORK, "workload.seed: 0 / 1"))

    result, script, _ = gated(refused)
    assert {(one.verdict, one.reason, one.detail) for one in result.suite.points} == {
        (Verdict.INCOMPARABLE, Reason.OTHER_WORK, "workload.seed: 0 / 1")
    }
    assert (result.suite.exit_code, len(script.asked)) == (5, 1)


def test_a_renamed_point_is_lost(calibrated, gated, request_of):
    result, _, _ = gated(lambda name, number: made_launch(number), request_of(["set:workload.settings.num_reqs=8"]))
    assert result.suite.exit_code in (3, 5)
    assert result.suite.verdict is not Verdict.PASS


def test_telemetry_drops_pairs_and_says_so(calibrated, gated):
    def make(name, number):
        one = made_launch(number)
        hot = Conditions(throttle=0x40)
        return PointLaunch(one.opened, one.values, {**one.conditions, "head": [hot, *one.conditions["head"][1:]]},
                           one.head_first)

    result, _, _ = gated(make)
    assert result.suite.verdict is Verdict.PASS
    assert result.notes[-1].startswith("telemetry dropped 10 of 60 pairs, both arms each, 10 device throttled")
    assert {one.figures.dropped_pairs for one in result.suite.points if one.figures} == {5}


def test_own_values_of_both_arms_stand_in_the_result(calibrated, gated):
    result, _, _ = gated(lambda name, number: made_launch(number, counts={"syncs": 51}))
    levels = result.levels["num_reqs=8", "syncs"]
    assert (levels.base.value, levels.head.value, levels.head.values) == (50, 51, (51.0,) * 5)
    assert result.levels["num_reqs=8", "period_p50_ns"].base.value == pytest.approx(1e6, rel=0.01)


def test_a_calibration_makes_up_for_launches_that_the_machine_spoiled(request_of, monkeypatch):
    spoilt = Conditions(throttle=0x8)
    script = Script(lambda name, number: made_launch(number, conditions=spoilt if number == 3 else None))
    monkeypatch.setattr(procedure, "measure_launch", script)
    monkeypatch.setattr(calibrating, "stage", procedure.stage)
    found = calibrating.run_calibration(request_of(), lambda line: None, lambda: TODAY)
    assert len(script.asked) == 21
    period = next(one for one in found.spreads if one.metric == "period_p50_ns")
    assert (period.launches, period.point) == (20, "num_reqs=8")
    assert 0 < period.sd < 0.003
    exposed = next(one for one in found.spreads if one.metric == "exposed_p50_ns")
    assert exposed.sd == 0  # hidden in every step of every launch


def test_a_calibration_whose_launches_resemble_each_other_takes_twice_as_many(request_of, monkeypatch):
    # GIVEN equal arms that differ by 1 % either way, for ten launches at a time
    script = Script(lambda name, number: made_launch(number, 0.01 if number // 10 % 2 else -0.01))
    monkeypatch.setattr(procedure, "measure_launch", script)
    said = []
    found = calibrating.run_calibration(request_of(), said.append, lambda: TODAY)
    assert len(script.asked) == 40
    assert any("resemble each other" in line for line in said)
    assert next(one.launches for one in found.spreads if one.metric == "period_p50_ns") == 40


@pytest.fixture
def here(monkeypatch):
    """What this process knows of the machine, as the arms' words have it unless a test says otherwise."""
    known = {"gpu": "NVIDIA H200", "python": "3.12.1"}
    monkeypatch.setattr(announce, "_here", lambda: known)
    return known


def test_what_will_be_found_and_what_it_costs_is_said_before_measuring(calibrated, gated, here, tmp_path):
    _, _, said = gated(lambda name, number: made_launch(number))
    first = next(index for index, line in enumerate(said) if line.startswith("launch 1 of 5"))
    assert first == 3
    assert said[0].startswith("plan: 2 points, 5 launches of 6 pairs of 50-step blocks")
    assert said[1].startswith("plan: nothing below 2.00 % of the step's period is called a regression, and a slowdown")
    assert said[1].endswith(f"is flagged 95 times of 100 (calibration {tmp_path / 'aa.json'})")
    assert said[2].endswith("(as the calibration took)")
    assert said[first + 1].startswith("it took 0 s")


@pytest.mark.parametrize("changed", [{"gpu": "NVIDIA L4"}, {"python": "3.13.0"}])
def test_a_calibration_of_another_machine_promises_nothing(calibrated, gated, here, changed):
    here.update(changed)
    _, _, said = gated(lambda name, number: made_launch(number))
    assert said[1].startswith("plan: no calibration here fits these points and blocks, so no time can fail")
    assert said[2] == (
        "plan: about 3 min, and up to 6 min where everything is confirmed"
        " (assumed: 10 s until both arms are ready, 1.2 s a block)"
    )


def test_other_blocks_promise_nothing_either(calibrated, gated, here, request_of):
    request = request_of(limits=Limits(pairs=4))
    _, _, said = gated(lambda name, number: made_launch(number, pairs=4), request)
    assert said[1].startswith("plan: no calibration here fits")
