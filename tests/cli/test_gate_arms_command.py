"""perf gate between two arms: what is asked of the procedure, what is written, and what is refused before it runs."""

from __future__ import annotations

import json

import pytest
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.point import PointVerdict
from stepscope.analysis.gate.result import GateResult, Level, Levels
from stepscope.analysis.gate.suite import judge_suite
from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.experiments.gate import procedure
from stepscope.experiments.gate.judging import Measured
from stepscope.experiments.gate.procedure import Gated

MORE = PointVerdict("num_reqs=16", "syncs", Verdict.FAIL, Reason.MORE, stage=1, detail="base 50, head 51")


@pytest.fixture
def asked(monkeypatch):
    """Requests that reached the procedure, which finds one synchronisation more."""
    requests = []

    def run(request, say):
        requests.append(request)
        say("launch 1 of 5: 2 points")
        base, head = (arm.title for arm in request.arms)
        levels = {("num_reqs=16", "syncs"): Levels(Level(50, 50, 50, (50.0,)), Level(51, 51, 51, (51.0,)))}
        machine = {"gpu": "NVIDIA H200"}
        suite = judge_suite([MORE], Limits())
        return Gated(GateResult(suite, "paired", base, head, machine, ("a note",), levels), Measured({}, {}))

    monkeypatch.setattr(procedure, "run_gate", run)
    return requests


def test_two_arms_are_judged_and_written(perf, asked, tmp_path):
    ended = perf("gate", "--base", "checkout:v1", "--head", "checkout:.", "--head", "set:staging=pageable", "--spec",
                 "s.yaml", "--param", "seed=3", "--device", "sim", "--launches", "4", "--pairs", "8", "--block-steps",
                 "60", "--metric", "syncs", "--json", tmp_path / "gate.json", "--raw",
                 tmp_path / "raw.json")  # fmt: skip
    assert ended.code == 1
    (request,) = asked
    assert [arm.words for arm in request.arms] == [("checkout:v1",), ("checkout:.", "set:staging=pageable")]
    assert (request.limits.launches, request.limits.pairs, request.blocks.steps) == (4, 8, 60)
    assert (request.params, request.metrics, str(request.spec)) == (("seed=3", "device=sim"), ("syncs",), "s.yaml")
    assert ended.out.startswith("# perf gate: FAIL")
    assert "perf: gate: launch 1 of 5" in ended.err
    assert ended.err.strip().splitlines()[-1].startswith("perf: gate: FAIL (more): num_reqs=16::syncs")
    tree = json.loads((tmp_path / "gate.json").read_text())
    assert (tree["kind"], tree["verdict"], tree["exit_code"], tree["base"]) == ("paired", "FAIL", 1, "checkout:v1")
    (point,) = tree["points"]
    assert (point["unit"], point["reason"], point["base"]["value"], point["head"]["values"]) == (
        "count", "more", 50, [51.0]
    )
    assert json.loads((tmp_path / "raw.json").read_text()) == {"first": {}, "fresh": {}}


@pytest.mark.parametrize(("options", "said"), [
    (("--head", "v2"), "--head v2: expected checkout:"), (("--head", "set:no_such=1"), "no_such"),
    ((), "give --head ARM"), (("--head", "set:seed=1", "--launches", "1"), "--launches is 1; give 3 to 1000"),
    (("--head", "set:seed=1", "--launches", "2"), "--launches is 2; give 3 to 1000"),
    (("--head", "set:seed=1", "--block-steps", "3"), "--block-steps is 3; give at least 10"),
    (("--head", "set:seed=1", "--json", "/no/such/folder/gate.json"), "does not exist"),
    (("--baseline", "a.json", "--head", "b.json", "--raw", "c.json"), "--raw"),
    (("--baseline", "a.json"), "needs one --head FILE"),
])  # fmt: skip
def test_what_cannot_be_run_is_refused_in_one_line(perf, asked, options, said):
    ended = perf("gate", *options)
    assert ended.code == 2
    assert said in ended.err
    assert not asked


def test_all_limits_that_are_wrong_are_told_at_once(perf, asked):
    ended = perf("gate", "--head", "set:seed=1", "--launches", "2", "--pairs", "1", "--min-effect", "2",
                 "--must-detect", "1", "--block-steps", "3")  # fmt: skip
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    for said in ("--launches is 2", "--pairs is 1", "--min-effect is 2", "--must-detect 1 is not above",
                 "--block-steps is 3"):  # fmt: skip
        assert said in ended.err
    assert not asked


@pytest.mark.parametrize("launches", ["1", "5", "19"])
def test_a_calibration_needs_twenty_launches(perf, launches):
    ended = perf("gate", "calibrate", "--launches", launches, "--block-steps", "3")
    assert ended.code == 2
    assert f"--launches (of a calibration) is {launches}; give 20 to 10000" in ended.err
    assert "--block-steps is 3" in ended.err


def test_help_states_the_least_values(perf):
    text = " ".join(perf("gate", "--help").out.split())
    for least in ("at least 3", "at least 2", "at least 10"):
        assert least in text
    assert "at least 20" in " ".join(perf("gate", "calibrate", "--help").out.split())


def test_a_plan_from_a_calibration(perf, tmp_path):
    entry = {"point": "num_reqs=16", "work": "w", "metric": "period_p50_ns", "sd": 0.01, "launches": 20, "pairs": 6,
             "block_steps": 50, "measured_on": "2026-11-30"}
    path = tmp_path / "aa.json"
    path.write_text(json.dumps({"schema": 1, "machine": {"gpu": "NVIDIA H200"}, "entries": [entry]}))
    ended = perf("gate", "plan", "--calibration", path)
    assert ended.code == 0
    assert ended.out.splitlines()[-1].startswith("| num_reqs=16 | period_p50_ns | 1.00 % | 20 | 2.00 % | ")
    assert perf("gate", "plan").code == 2
    assert perf("gate", "plan", "--sd", "0.01", "--calibration", path).code == 2
