"""Launches of which only blocks are kept: series a step, no files, and the same figures as a recording gives."""

from pathlib import Path

import pytest
from stepscope.errors import MeasurementError
from stepscope.experiments.launch_groups import measure_launch, with_series
from stepscope.experiments.launches import launches, num_resident, tasks
from stepscope.experiments.plan import make_plan
from stepscope.experiments.summary import summary_of

TREE = {
    "workload": {"regime": "steady", "settings": {"num_reqs": 4}, "scheduler": {"reserve_output": True}},
    "runner": {"max_model_len": 256, "num_blocks": 128, "model": "micro"},
    "device": "cpu",
    "measure": {
        "interleave": "token_gather", "blocks": 2, "block_steps": 3, "settle_steps": 1, "repeats": 2, "keep": "blocks",
        "resident": True,
    },
    "grid": {"token_gather": ["index_select", "cat"]},
}  # fmt: skip


def measured(tree, tmp_path: Path):
    points = launches(make_plan([("spec", tree)], {}).points)[0]
    return list(measure_launch(points, tmp_path, lambda: False))


@pytest.mark.parametrize("axis", ["token_gather", "commit_order"])
def test_blocks_have_series_of_their_steps_and_of_the_one_behind(tmp_path: Path, axis: str) -> None:
    arms = {"token_gather": ["index_select", "cat"], "commit_order": ["first", "last"]}[axis]
    tree = {**TREE, "measure": {**TREE["measure"], "interleave": axis}, "grid": {axis: arms}}
    found = measured(tree, tmp_path)
    assert [getattr(point.spec.runner, axis) for point, *_ in found] == arms
    for _, folder, done, blocks in found:
        steps = done.recording.table("steps").set_index("step")
        counted = steps[~steps["warmup"]]
        assert len(blocks) == 2
        for block in blocks:
            series = block["series"]
            assert len(block["periods_ns"]) == 3
            assert series["num_tokens"] == [4] * 4
            assert {"preprocess_ns", "build_indices_ns", "update_states_ns", "host_busy_ns"} <= set(series)
            assert all(len(values) == 4 for values in series.values())
        # the first three of each are the counted steps', in their order
        busy = [value for block in blocks for value in block["series"]["host_busy_ns"][:3]]
        assert busy == counted["host_busy_ns"].tolist()
        phases = done.recording.table("phases").set_index(["step", "name"])["host_ns"]
        preprocess = [value for block in blocks for value in block["series"]["preprocess_ns"][:3]]
        assert preprocess == [phases[step, "preprocess"] for step in counted.index]
        # the fourth is the step behind the last one, whose rows carry `warmup`
        last = counted.index[2]
        assert blocks[0]["series"]["host_busy_ns"][3] == steps.loc[last + 1, "host_busy_ns"]
        assert steps.loc[last + 1, "warmup"]
        # and nothing was written
        assert list(folder.iterdir()) == []
        # AND counted steps that no block has are an error
        with pytest.raises(MeasurementError, match="more steps were counted than the blocks have"):
            with_series(blocks[:1], done.recording)


def test_the_summary_of_blocks_is_short(tmp_path: Path) -> None:
    _, _, done, blocks = measured(TREE, tmp_path)[0]
    periods = sorted(period for block in blocks for period in block["periods_ns"])
    assert summary_of(done) == {
        "metrics": {"period_p50_ns": (periods[2] + periods[3]) / 2, "pace_ns": sum(periods) / 6, "steps_in_flight": 1,
                    "steps_counted": 6}, "reasons": {},
    }  # fmt: skip


def test_launches_of_resident_points_share_a_process_by_number() -> None:
    tree = {**TREE, "grid": {**TREE["grid"], "workload.settings.num_reqs": [2, 4]}}
    points = make_plan([("spec", tree)], {}).points
    assert num_resident(points) == 2
    made = tasks(points)
    assert [(task.key, task.fresh) for task in made] == [(f"launch-{n}", False) for n in (0, 1, 0, 1)]
    assert all(len(task.points) == 2 for task in made)
    alone = {**TREE, "measure": {**TREE["measure"], "resident": False}}
    points = make_plan([("spec", alone)], {}).points
    assert num_resident(points) == 0
    assert all(task.fresh for task in tasks(points))


def test_an_interrupted_launch_keeps_nothing(tmp_path: Path) -> None:
    points = launches(make_plan([("spec", TREE)], {}).points)[0]
    assert list(measure_launch(points, tmp_path, lambda: True)) == []
