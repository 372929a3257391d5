"""Commit orders on one runner: whose steps are whose, what each recording says, and that the order really changes."""

from contextlib import closing

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.interleaved import take_turns, warm_up
from stepscope.experiments.one_runner import HeldRows, OneRunner
from stepscope.experiments.plan import make_plan
from stepscope.instrumentation.recording.meta import SweepKeys

TREE = {
    "workload": {"regime": "steady", "settings": {"num_reqs": 4}, "scheduler": {"reserve_output": True}},
    "runner": {"max_model_len": 256, "num_blocks": 128, "model": "micro"},
    "device": "cpu",
    "measure": {"interleave": "commit_order", "blocks": 3, "block_steps": 4, "settle_steps": 2},
    "grid": {"commit_order": ["first", "last", "skip"]},
}


def test_each_arm_has_the_steps_of_its_blocks_and_its_own_order(tmp_path):
    points = make_plan([("spec", TREE)], {}).points
    specs = [point.spec for point in points]
    with closing(OneRunner(specs, tmp_path / "shared")) as shared:
        warm_up(shared.arms)
        found = take_turns(shared.arms, specs[0].measure)
        notes = shared.books()
        measured = [
            shared.measured(number, spec, tmp_path / str(number), SweepKeys(arm=spec.runner.commit_order), notes)
            for number, spec in enumerate(specs)
        ]
    # GIVEN three blocks an arm in turns
    assert [[block["order"] for block in blocks] for blocks in found] == [[0, 5, 6], [1, 4, 7], [2, 3, 8]]
    taken = []
    for blocks, done, spec in zip(found, measured, specs, strict=True):
        order, steps = spec.runner.commit_order, done.recording.table("steps")
        counted = steps[~steps["warmup"]]
        # THEN the counted steps are the blocks' steps, with their periods
        assert counted["period_ns"].tolist() == [period for block in blocks for period in block["periods_ns"]]
        taken += counted["step"].tolist()
        # and the recording is the arm's
        assert done.recording.meta.configuration["runner"]["commit_order"] == order
        assert set(steps["arm"]) == {order}
        copies, spans = done.recording.table("copies"), done.recording.table("spans")
        table = copies[(copies["buffer"] == "block_table") & copies["step"].isin(counted["step"])]
        assert len(table) == (0 if order == "skip" else 12)
        if order != "skip":  # the copy lies before or behind index building
            built = spans[spans["name"] == "build_indices"].set_index("step")["start_ns"]
            early = table.set_index("step")["enqueue_start_ns"] < built[table["step"]]
            assert early.tolist() == [order == "first"] * 12
    # and no step is anybody else's
    assert len(set(taken)) == len(taken) == 3 * 12


def test_rows_of_no_block_are_everybodys():
    held = HeldRows()
    held.write({"steps": [(1, "warm"), (2, "a"), (3, "b")], "calibration": [(None, "cost")]})
    held.write({"steps": [(4, "a")]})
    held.arm_of.update({2: 0, 3: 1, 4: 0})
    assert held.of(0) == {"steps": [(1, "warm"), (2, "a"), (4, "a")], "calibration": [(None, "cost")]}
    assert held.of(1)["steps"] == [(1, "warm"), (3, "b")]


def test_an_order_that_the_workload_does_not_allow_is_refused(tmp_path):
    tree = {**TREE, "workload": {"regime": "steady", "settings": {"num_reqs": 4}}}
    with pytest.raises(UsageError, match="commit_order: skip"):
        OneRunner([point.spec for point in make_plan([("spec", tree)], {}).points], tmp_path)
