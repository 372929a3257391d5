"""Steps in flight: their pace is gated, their single periods are only told."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import numpy as np
import pytest
from stepscope.analysis.gate.block_values import LaunchValues
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.experiments.gate import calibrating, launch, procedure, worker
from stepscope.experiments.gate.arms import parse_arm
from stepscope.experiments.gate.launch import ARMS, measure_launch
from stepscope.experiments.gate.points import Blocks
from stepscope.experiments.gate.procedure import benched, run_gate
from stepscope.experiments.gate.request import GateRequest

from .in_process import InProcessArm, Script, made_launch

TODAY = date(2026, 11, 30)
SPEC = """
workload: {regime: steady, settings: {num_reqs: 4}}
runner: {graph_mode: full, model: micro}
device: sim
"""


def paced(number: int, slower: float = 0.0, *, rhythm: bool = False):
    """A launch of pipelined steps. `rhythm`: most single periods of head are short, of its last two pairs, long."""
    made = made_launch(number, slower)
    values = {}
    for arm in ARMS:
        one = made.values[arm]
        pace = one.timed["period_p50_ns"]
        beat = np.array([0.8] * 4 + [1.3] * 2) if rhythm and arm == "head" else 1.0
        timed = {**one.timed, "pace_ns": pace, "period_p50_ns": beat * pace}
        values[arm] = LaunchValues(timed, one.counted, one.ranges)
    return replace(made, values=values)


@pytest.fixture
def request_of(tmp_path):
    (tmp_path / "spec.yaml").write_text("workload: {regime: steady}\n")

    def make(head=(), spec="spec.yaml", **changed):
        arms = (parse_arm("base", []), parse_arm("head", head))
        return GateRequest(arms, tmp_path / spec, calibration=tmp_path / "aa.json", **changed)

    return make


@pytest.fixture
def gated(request_of, monkeypatch):
    def run(make):
        monkeypatch.setattr(procedure, "measure_launch", Script(lambda name, number: make(number)))
        result = run_gate(request_of(), lambda line: None, lambda: TODAY).result
        return result, {one.metric: (one.verdict, one.reason, one.detail) for one in result.suite.points}

    monkeypatch.setattr(procedure, "measure_launch", Script(lambda name, number: paced(100 + number)))
    calibrating.run_calibration(request_of(), lambda line: None, lambda: TODAY)
    return run


def test_the_pace_is_judged_and_single_periods_stand_beside(gated):
    # GIVEN equal arms, of which head's single periods are mostly a fifth too short
    result, found = gated(lambda number: paced(number, rhythm=True))

    # THEN the pace passes, no other figure of the whole step is judged, and nothing lacks a calibration
    assert found["pace_ns"][:2] == (Verdict.PASS, Reason.WITHIN_LIMIT)
    assert "period_p50_ns" not in found
    tails = {one.metric: one.effect for one in result.beside}
    assert tails["period_p50_ns"] == pytest.approx(-0.2, abs=0.01)
    assert result.notes[0].startswith("calibrated on this machine on 2026-11-30")


def test_a_slower_pace_fails_and_names_its_place(gated):
    _, found = gated(lambda number: paced(number, 0.05))

    assert found["pace_ns"] == (Verdict.FAIL, Reason.CONFIRMED_FRESH, "in preprocess / build_indices")


def test_a_calibration_of_single_periods_is_none_of_the_pace(gated, request_of):
    # GIVEN a calibration as earlier versions wrote it
    path = request_of().calibration
    tree = json.loads(path.read_text())
    tree["entries"] = [entry for entry in tree["entries"] if entry["metric"] != "pace_ns"]
    path.write_text(json.dumps(tree))

    # THEN nothing fails by it, and the reason says what to do; steps that wait for their tokens are judged by it
    result, found = gated(lambda number: paced(number, 0.05))
    assert found["pace_ns"][:2] == (Verdict.INCONCLUSIVE, Reason.CALIBRATION_NO_PACE)
    assert "calibration_of_single_periods" in result.notes[0]
    assert "run perf gate calibrate" in result.notes[0]
    _, found = gated(lambda number: made_launch(number, 0.05))
    assert found["period_p50_ns"][0] is Verdict.FAIL


@pytest.mark.parametrize(("handoff", "head", "pipelined"), [
    ("sync", (), False), ("async_auto", (), True), ("sync", ("set:token_handoff=async_auto",), True),
])  # fmt: skip
def test_both_arms_have_a_pace_where_one_is_pipelined(request_of, monkeypatch, tmp_path, handoff, head, pipelined):
    # GIVEN real launches on the simulated device
    monkeypatch.setattr(launch, "ArmProcess", InProcessArm)
    monkeypatch.setattr(InProcessArm, "spoil", None)
    monkeypatch.setattr(worker, "gc", SimpleNamespace(collect=lambda: None))
    monkeypatch.setattr("os.fsync", lambda handle: None)
    (tmp_path / "sim.yaml").write_text(SPEC.replace("model: micro", f"model: micro, token_handoff: {handoff}"))

    with benched(request_of(head, "sim.yaml", limits=Limits(pairs=2), blocks=Blocks(10, 1))) as bench:
        found = measure_launch(bench, ["run"], 0, print)["run"]

    assert not found.failures
    for arm in ARMS:
        assert ("pace_ns" in found.values[arm].timed) is pipelined
        assert "period_p50_ns" in found.values[arm].timed
        if pipelined:
            assert np.isfinite(found.values[arm].timed["pace_ns"]).all()
