"""Axes, parameters from the command line, identities of points."""

from __future__ import annotations

import json

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.axes import expand, parse_params, with_params
from stepscope.experiments.plan import make_plan, read_plan

BASE = {"workload": {"regime": "steady", "settings": {"num_reqs": 4}}, "device": "sim"}


def choices(**axes: object) -> list[dict[str, object]]:
    return expand({**BASE, **axes})[1]


def test_grid_is_every_combination_and_zip_goes_side_by_side() -> None:
    assert choices(
        grid={"commit_order": ["first", "last"]}, zip={"runner.max_num_seqs": [8, 64], "runner.table_width": [1, 2]}
    ) == [
        {"runner.commit_order": "first", "runner.max_num_seqs": 8, "runner.table_width": 1},
        {"runner.commit_order": "first", "runner.max_num_seqs": 64, "runner.table_width": 2},
        {"runner.commit_order": "last", "runner.max_num_seqs": 8, "runner.table_width": 1},
        {"runner.commit_order": "last", "runner.max_num_seqs": 64, "runner.table_width": 2},
    ]


def test_exclude_drops_what_matches_all_its_keys() -> None:
    kept = choices(
        grid={"workload.regime": ["steady", "churn"], "commit_order": ["first", "skip"]},
        exclude=[{"regime": ["churn", "chunked"], "commit_order": "skip"}],
    )
    assert [tuple(choice.values()) for choice in kept] == [("steady", "first"), ("steady", "skip"), ("churn", "first")]


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"grid": {"commit_order": []}}, "grid.runner.commit_order: the list is empty"),
        ({"grid": {"commit_order": "first"}}, "grid.runner.commit_order: expected a list of values, got 'first'"),
        ({"grid": {"commit_order": ["first", "first"]}}, "grid.runner.commit_order: 'first' is listed twice"),
        ({"grid": {"commit_order": ["first"], "runner.commit_order": ["last"]}}, "runner.commit_order is given twice"),
        ({"grid": {"comit_order": ["first"]}}, "unknown parameter 'comit_order'; did you mean 'commit_order'?"),
        ({"grid": {"runer.commit_order": ["first"]}}, "unknown section 'runer'; did you mean 'runner'?"),
        ({"grid": ["first"]}, "grid: expected a mapping"),
        ({"zip": {"block_size": [1, 2], "max_num_seqs": [1]}}, "zip: the lists must be equally long"),
        ({"points": []}, "points: the list is empty"),
        (
            {"grid": {name: list(range(1, 400)) for name in ("seed", "max_num_seqs", "block_size", "num_blocks")}},
            "grid: 25344958401 points; at most 100000, take fewer values",
        ),
        (
            {"grid": {"seed": list(range(999))}, "zip": {"block_size": list(range(1, 999))}},
            "axes: 997002 points; at most 100000, take fewer values",
        ),
        ({"exclude": [{"regime": "steady"}]}, "exclude: nothing is left to run"),
    ],
)
def test_bad_axes_are_refused_by_name(axes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        choices(**axes)
    assert words in str(caught.value)


def test_params_split_at_commas_outside_brackets() -> None:
    assert parse_params(["capture_sizes=[1,2],default", "regime=churn", "check=off"]) == {
        "runner.capture_sizes": [[1, 2], "default"],
        "workload.regime": ["churn"],
        "runner.check": ["off"],
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("block_size", "expected key=v1"),
        ("=1", "expected key=v1"),
        ("block_size=1,,2", "a value is empty"),
        ("capture_sizes=[1,2", r"--param capture_sizes=\[1,2: line 1: is not YAML"),
    ],
)
def test_a_malformed_param_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_params([text])


def test_the_command_line_wins_over_the_file() -> None:
    tree = {**BASE, "runner": {"block_size": 16}, "grid": {"commit_order": ["first", "last"]}}
    overridden = with_params(tree, parse_params(["commit_order=last", "block_size=1,4"]))
    base, points = expand(overridden)
    assert base["runner"] == {"block_size": 16, "commit_order": "last"}
    assert points == [{"runner.block_size": 1}, {"runner.block_size": 4}]


def test_a_bad_value_of_an_axis_names_spec_field_and_point() -> None:
    with pytest.raises(UsageError) as caught:
        make_plan([("mine.yaml", {**BASE, "grid": {"block_size": [16, "x"]}})], {})
    assert str(caught.value) == "mine.yaml: runner.block_size: Expected int, got str (in the point runner.block_size=x)"


def test_the_same_experiment_twice_is_refused() -> None:
    with pytest.raises(UsageError, match=r"is the same experiment as"):
        make_plan([("a.yaml", BASE), ("b.yaml", BASE)], {})


def test_a_points_id_depends_on_all_that_is_measured_and_on_nothing_else() -> None:
    one = make_plan([("a.yaml", {**BASE, "grid": {"block_size": [16]}})], {}).points[0]
    same = make_plan([("b.yaml", {**BASE, "runner": {"block_size": 16}})], {}).points[0]
    other = make_plan([("a.yaml", {**BASE, "runner": {"block_size": 4}})], {}).points[0]
    assert one.id == same.id != other.id
    assert one.slug == "block_size-16"
    plain = make_plan([("a.yaml", BASE)], {}).points[0]
    resolved = make_plan([("a.yaml", {**BASE, "device": "auto", "runner": {"max_model_len": 8192}})], {}).points[0]
    assert resolved.id == plain.id


def test_launches_share_their_points_id_and_its_folder() -> None:
    points = make_plan([("a.yaml", {**BASE, "measure": {"repeats": 2}})], {}).points
    assert [(p.slug, p.repeat, p.title) for p in points] == [
        ("point", 0, "point launch 1"), ("point", 1, "point launch 2")
    ]  # fmt: skip
    (identity,) = {p.id for p in points}
    assert [p.key for p in points] == [f"{identity}-1", f"{identity}-2"]
    assert [p.folder for p in points] == [f"point--{identity}/launch-1", f"point--{identity}/launch-2"]


def test_a_plan_of_the_first_version_keeps_its_folders() -> None:
    tree = json.loads(make_plan([("a.yaml", {**BASE, "measure": {"repeats": 2}})], {}).to_json())
    tree["version"] = 1
    for number, entry in enumerate(tree["points"], start=1):
        del entry["folder"]
        entry |= {"id": f"abc{number}", "slug": f"r{number}"}
    points = read_plan(json.dumps(tree), "plan.json").points
    assert [p.folder for p in points] == ["r1--abc1", "r2--abc2"]
    assert len({p.key for p in points}) == 2


def test_a_plan_survives_its_file() -> None:
    plan = make_plan([("a.yaml", {**BASE, "grid": {"capture_sizes": [[1, 2], "default"]}})], {})
    assert read_plan(plan.to_json(), "plan.json") == plan


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}'])
def test_a_foreign_plan_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"plan\.json"):
        read_plan(text, "plan.json")


def test_repeats_without_end_are_refused_before_they_are_written_out() -> None:
    tree = {**BASE, "measure": {"repeats": 10**12}}
    with pytest.raises(UsageError, match=r"measure\.repeats: 1000000000000 points; at most 100000"):
        make_plan([("mine.yaml", tree)], {})
