"""Spec files that no parser likes: each is refused in one line that names the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.axes import parse_params
from stepscope.experiments.loading import load_tree
from stepscope.experiments.plan import make_plan

BASE: dict[str, Any] = {"workload": {"regime": "steady"}, "device": "sim", "measure": {"steps": 4}}
DEEP = "[" * 5000 + "]" * 5000
LONG = "1" + "0" * 5000


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("deep.yaml", f"a: {DEEP}", "is nested too deep"),
        ("deep.toml", f"a = {DEEP}", "is nested too deep"),
        ("self.yaml", "a: &a [*a]", "line 1: is not YAML: found unconstructable recursive node"),
        ("long.yaml", f"a: {LONG}", "holds what is no value: Exceeds the limit"),
        ("long.toml", f"a = {LONG}", "holds what is no value: Exceeds the limit"),
        ("large.yaml", "a: {b: [1, 99999999999999999999999]}", "a.b[1]: the number has more than 64 bits"),
        ("date.toml", "[grid]\na = [2020-01-01]", "grid.a[0]: datetime.date(2020, 1, 1) is a date, which no field"),
        ("set.yaml", "a: !!set {b, c}", "a: {"),
        ("bits.yaml", "a: 0b_", "holds what is no value: invalid literal"),
    ],
)
def test_a_file_without_sense_is_refused_in_one_line(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_tree(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: {words}"), told
    assert "\n" not in told
    assert len(told) < len(str(path)) + 160


def test_an_unquoted_date_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("grid: {claim: [2020-01-01, 2020-01-01 10:00:00]}")
    assert load_tree(path) == {"grid": {"claim": ["2020-01-01", "2020-01-01 10:00:00"]}}
    assert parse_params(["claim=2020-01-01"]) == {"claim": ["2020-01-01"]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (LONG, "holds what is no value"),
        (DEEP, "is nested too deep"),
        ("1" + "0" * 30, "more than 64 bits"),
        (str(2**63), "more than 64 bits"),  # no column of ours holds it
        (".nan", "not a finite"),
    ],
    ids=["long", "deep", "large", "unsigned", "nan"],
)
def test_the_command_line_is_held_to_the_same(value: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_params([f"seed={value}"])


@pytest.mark.parametrize("axis", ["grid", "zip", "points", "exclude"])
def test_an_axis_that_holds_nothing_is_refused(axis: str) -> None:
    with pytest.raises(UsageError, match=f"mine.yaml: {axis}: holds nothing; write what belongs there, or drop"):
        make_plan([("mine.yaml", {**BASE, axis: None})], {})


def test_the_command_line_may_take_all_of_a_grid() -> None:
    tree = {**BASE, "grid": {"commit_order": ["first", "last"]}}
    assert len(make_plan([("mine.yaml", tree)], parse_params(["commit_order=first"])).points) == 1
