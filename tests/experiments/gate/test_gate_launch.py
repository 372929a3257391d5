"""A launch with the worker's own code, in this process: order of blocks, figures, failures."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from stepscope.analysis.gate.block_values import BESIDE, block_values
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.verdict import Reason
from stepscope.experiments.gate import launch, worker
from stepscope.experiments.gate.arms import parse_arm
from stepscope.experiments.gate.launch import measure_launch
from stepscope.experiments.gate.points import Blocks
from stepscope.experiments.gate.procedure import benched
from stepscope.experiments.gate.request import GateRequest

from .in_process import InProcessArm

SPEC = """
workload: {regime: steady, settings: {num_reqs: 4}}
runner: {graph_mode: full, model: micro}
device: sim
"""


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """bench(head words) with two pairs of ten steps."""
    monkeypatch.setattr(launch, "ArmProcess", InProcessArm)
    monkeypatch.setattr(InProcessArm, "spoil", None)
    monkeypatch.setattr(worker, "gc", SimpleNamespace(collect=lambda: None))  # here it would look through all of pytest
    monkeypatch.setattr("os.fsync", lambda handle: None)  # the disk's time is not what is tested
    (tmp_path / "spec.yaml").write_text(SPEC)
    opened = []

    def make(*words):
        arms = (parse_arm("base", []), parse_arm("head", words))
        made = benched(GateRequest(arms, tmp_path / "spec.yaml", limits=Limits(pairs=2), blocks=Blocks(10, 1)))
        opened.append(made)
        return made.__enter__()

    yield make
    for made in opened:
        made.__exit__(None, None, None)


def test_blocks_of_both_arms_alternate_and_have_figures(bench):
    found = measure_launch(bench(), ["run"], 1, print)["run"]
    assert found.head_first == [True, False]  # the second launch begins with head
    for arm in ("base", "head"):
        values = found.values[arm]
        assert set(values.timed) == {"period_p50_ns", "preprocess_p50_ns", "forward_p50_ns", "sample_p50_ns",
                                     "between_steps_p50_ns", "exposed_p50_ns", *BESIDE}  # no device times of a model
        assert all(np.isfinite(figure).all() and len(figure) == 2 for figure in values.timed.values())
        assert values.counted == {"pageable_bytes": 0, "hazards": 0, "syncs": 20, "launches": 80, "h2d_count": 100,
                                  "padding_share": 0}
        assert "build_indices" in values.ranges
        assert len(found.conditions[arm]) == 2


def test_a_switch_reaches_the_head_alone_and_is_counted(bench):
    found = measure_launch(bench("set:staging=pageable"), ["run"], 0, print)["run"]
    assert found.values["base"].counted["pageable_bytes"] == 0
    assert found.values["head"].counted["pageable_bytes"] > 0
    assert found.opened["head"]["parameters"]["runner"]["staging"] == "pageable"


def test_other_work_is_refused_before_it_is_measured(bench):
    found = measure_launch(bench("set:workload.seed=7"), ["run"], 0, print)["run"]
    assert found.refused == (Reason.OTHER_WORK, "workload.seed: 0 / 7")
    assert not found.values


def test_another_model_is_other_work_unless_a_switch_names_it(bench):
    made = bench()
    head = {"run": {**made.points["head"]["run"], "runner": {"graph_mode": "full", "model": "micro", "model_seed": 5}}}
    other = replace(made, points={**made.points, "head": head})
    found = measure_launch(other, ["run"], 0, print)["run"]
    assert found.refused == (Reason.OTHER_WORK, "runner.model_seed: 0 / 5")
    asked = measure_launch(bench("set:model_seed=5"), ["run"], 0, print)["run"]
    assert (asked.refused, asked.values["base"].tokens) == (None, asked.values["head"].tokens)
    assert asked.values["head"].tokens == 2 * 10 * 4  # pairs, steps, requests


def test_arms_that_computed_other_numbers_of_tokens_are_not_compared(bench):
    made = bench()

    less = iter((0, 1))  # base, head

    def fewer(recording, ranges, **options):
        values = block_values(recording, ranges, **options)
        return replace(values, tokens=values.tokens - next(less))

    found = measure_launch(replace(made, values=fewer), ["run"], 0, print)["run"]
    assert found.refused == (Reason.OTHER_WORK, "tokens over the counted steps: 80 / 79")
    assert not found.values


def test_a_switch_that_is_impossible_is_the_arms_failure(bench):
    said = []
    found = measure_launch(bench("set:commit_order=skip", "set:workload.scheduler.reserve_output=false"), ["run"], 0,
                           said.append)["run"]  # fmt: skip
    assert list(found.failures) == ["head"]
    assert found.failures["head"].startswith("usage: runner.commit_order: skip needs")
    assert "head: usage" in said[0]


def test_the_other_points_go_on_in_new_processes(bench, monkeypatch):
    # GIVEN three points, and a head that runs out of memory at the first
    made = bench()
    points = {arm: {name: dict(made.points[arm]["run"]) for name in "abc"} for arm in made.points}
    started = []
    monkeypatch.setattr(InProcessArm, "__init__", _counting(started))
    points["head"]["a"] = {**points["head"]["a"], "runner": {"graph_mode": "no such mode"}}
    # WHEN they are measured
    found = measure_launch(replace(made, points=points), ["a", "b", "c"], 0, print)
    # THEN one failed, two are there, and four processes were started
    assert [bool(found[name].failures) for name in "abc"] == [True, False, False]
    assert started == ["base", "head"] * 2


def _counting(started):
    original = InProcessArm.__init__

    def init(self, arm, program, log):
        started.append(arm)
        original(self, arm, program, log)

    return init


def test_requests_that_end_too_early_are_a_failure(bench, monkeypatch):
    def shortened(arm, request, reply):
        return {**reply, "ran": 4} if request["do"] == "block" and arm == "head" else reply

    monkeypatch.setattr(InProcessArm, "spoil", staticmethod(shortened))
    found = measure_launch(bench(), ["run"], 0, print)["run"]
    assert found.failures == {"head": "short: requests ended after 4 of 10 steps of a block"}


def test_other_code_than_was_asked_for_is_a_failure(bench, monkeypatch, tmp_path):
    made = bench()
    programs = {**made.programs, "head": replace(made.programs["head"], package=tmp_path)}
    original = InProcessArm.__init__

    def init(self, arm, program, log):
        original(self, arm, made.programs[arm], log)

    monkeypatch.setattr(InProcessArm, "__init__", init)
    found = measure_launch(replace(made, programs=programs), ["run"], 0, print)["run"]
    assert found.failures["head"].startswith("other code: ")
