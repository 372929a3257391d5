"""Arms side by side: whose turn it is, what a block counts, and a sweep that runs its launches in processes."""

import json

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.interleaved import rotated, take_turns, turns, warm_up
from stepscope.experiments.launches import launches
from stepscope.experiments.observer import Unwatched
from stepscope.experiments.plan import make_plan
from stepscope.experiments.session import Session
from stepscope.experiments.store import SweepStore
from stepscope.experiments.sweep import run_sweep
from stepscope.experiments.sweep_view import sweep_view
from stepscope.experiments.workers.launcher import Workers
from stepscope.experiments.workers.process import WorkerProcess

SPEC = {
    "workload": {"regime": "steady", "settings": {"num_reqs": 4}, "scheduler": {"reserve_output": True}},
    "runner": {"max_model_len": 256, "num_blocks": 128, "model": "micro"},
    "device": "cpu",
    "measure": {"interleave": "commit_order", "blocks": 3, "block_steps": 4, "settle_steps": 2, "repeats": 2},
    "grid": {"commit_order": ["first", "skip"]},
}


def test_turns_go_forth_and_back():
    assert turns(2, 4) == [0, 1, 1, 0, 0, 1, 1, 0]
    assert turns(3, 2) == [0, 1, 2, 2, 1, 0]


def test_each_launch_begins_with_another_arm():
    tree = {**SPEC, "grid": {"commit_order": ["first", "last", "skip"]}}
    plan = make_plan([("spec", tree)], {"measure.repeats": [4]})
    orders = [[point.spec.runner.commit_order for point in rotated(group)] for group in launches(plan.points)]
    assert orders[0] == orders[3] == ["first", "last", "skip"]
    assert orders[1:3] == [["last", "skip", "first"], ["skip", "first", "last"]]


def test_points_of_a_launch_differ_in_the_axis_only():
    tree = {**SPEC, "grid": {"commit_order": ["first", "skip"], "token_gather": ["cat", "index_select"]}}
    plan = make_plan([("spec", tree)], {})
    groups = launches(plan.points)
    assert [len(group) for group in groups] == [2, 2, 2, 2]
    for group in groups:
        assert {point.spec.runner.commit_order for point in group} == {"first", "skip"}
        assert len({(point.repeat, point.spec.runner.token_gather) for point in group}) == 1
    alone = make_plan([("spec", {**SPEC, "measure": {"steps": 3}})], {})
    assert [len(group) for group in launches(alone.points)] == [1, 1]


@pytest.mark.parametrize("field", ["blocks", "block_steps"])
def test_no_blocks_are_refused(field):
    with pytest.raises(UsageError, match=f"measure.{field}: 0 is too small"):
        make_plan([("spec", {**SPEC, "measure": {**SPEC["measure"], field: 0}})], {})
    with pytest.raises(UsageError, match="unknown parameter 'comit_order'"):
        make_plan([("spec", {**SPEC, "measure": {"interleave": "comit_order"}})], {})


def test_halves_that_only_flight_keeps_apart_are_refused():
    # GIVEN a regime whose two halves would be one batch from the end of the first block on
    tree = {**SPEC, "workload": {"regime": "alternating"}, "grid": {"runner.commit_order": ["first", "last"]}}
    with pytest.raises(UsageError, match="alternating keeps two halves apart by what is in flight"):
        make_plan([("spec", tree)], {})
    assert make_plan([("spec", {**tree, "measure": {"steps": 4}})], {}).points


def test_blocks_hold_periods_of_counted_steps_only(tmp_path):
    plan = make_plan([("spec", SPEC)], {})
    points = launches(plan.points)[0]
    sessions = [Session(point.spec, tmp_path / point.id) for point in points]
    warm_up(sessions)
    found = take_turns(sessions, points[0].spec.measure)
    measured = [session.finish() for session in sessions]
    assert [[block["order"] for block in blocks] for blocks in found] == [[0, 3, 4], [1, 2, 5]]
    for blocks, done in zip(found, measured, strict=True):
        assert all(len(block["periods_ns"]) == 4 for block in blocks)
        steps = done.recording.table("steps")
        counted = steps[~steps["warmup"]]
        # the rows that count are the blocks' steps, and their periods the blocks'
        assert counted["period_ns"].tolist() == [period for block in blocks for period in block["periods_ns"]]
        # and no counted period spans the turns of the others: the step behind each block is not counted
        assert (~steps["warmup"].to_numpy()[steps["step"].isin(counted["step"] + 1)]).sum() == 3 * 3
    for session in sessions:
        session.close()


def test_a_sweep_runs_each_launch_in_a_process_of_its_own_and_reports_its_blocks(tmp_path):
    store = SweepStore.create(tmp_path / "sweep", make_plan([("spec", SPEC)], {"measure.repeats": [1]}))
    outcome = run_sweep(store, Unwatched())
    assert (outcome.num_ok, outcome.num_failed) == (2, 0)
    pids = set()
    for point in store.plan.points:
        recording = json.loads((store.folder(point) / "recording" / "recording.json").read_text())
        assert recording["sweep"]["arm"] == point.spec.runner.commit_order
        pids.add(recording["process"]["pid"])
    assert len(pids) == 1
    assert all(len(point.blocks) == 3 for point in sweep_view(store).measured)


def test_a_launch_that_fails_gives_the_reason_of_its_points(tmp_path):
    # GIVEN a process that does not come up
    store = SweepStore.create(tmp_path / "sweep", make_plan([("spec", SPEC)], {"measure.repeats": [1]}))
    work = "stepscope.nowhere:work"
    outcome = run_sweep(store, Unwatched(), lambda scratch: Workers([WorkerProcess(scratch, work=work)]))
    assert (outcome.num_ok, outcome.num_failed, outcome.exit_code) == (0, 2, 3)
    reasons = {store.record(point)["reason"] for point in store.plan.points}
    assert len(reasons) == 1
    assert "stepscope.nowhere" in reasons.pop()
