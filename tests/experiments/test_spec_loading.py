"""Spec files: what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.loading import load_tree
from stepscope.experiments.spec import PointSpec, parse_point


def written(folder: Path, text: str, name: str = "spec.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("device: sim\ndevice: cpu\n", "line 2: key 'device' is given twice"),
        ("workload:\n  seed: 1\n  seed: 2\n", "line 3: key 'seed' is given twice"),
        ("1: 2\n", "line 1: key 1 is not a text"),
        ("- a\n", "holds a list, expected a mapping"),
        ("", "holds nothing, expected a mapping"),
        ("a: [1\n", "is not YAML"),
        ("base: &a {seed: 1}\nworkload:\n  <<: *a\n", "line 3: key '<<' is not taken"),
        ("a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
        ), "its aliases stand for more than 4000000 values"),
        ("workload:\n  trace:\n    speed: .nan\n", "workload.trace.speed: nan is not a finite number"),
        ("grid:\n  workload.trace.speed: [1, .inf]\n", "grid.workload.trace.speed[1]: inf is not a finite number"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_that_names_it(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_tree(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.yaml: no such file"):
        load_tree(tmp_path / "nowhere.yaml")


def test_off_and_no_stay_words(tmp_path: Path) -> None:
    assert load_tree(written(tmp_path, "runner: {check: off}\na: no\nb: true\nc: none\n")) == {
        "runner": {"check": "off"},
        "a": "no",
        "b": True,
        "c": "none",
    }


def test_numbers_with_an_exponent_are_numbers(tmp_path: Path) -> None:
    tree = load_tree(written(tmp_path, "a: 1e3\nb: -2E-2\nc: 1.5e+1\nd: 1e\ne: e3\nf: 0x1e3\ng: 12\n"))
    assert tree == {"a": 1000.0, "b": -0.02, "c": 15.0, "d": "1e", "e": "e3", "f": 0x1E3, "g": 12}
    with pytest.raises(UsageError, match="a: inf is not a finite number"):
        load_tree(written(tmp_path, "a: 1e999\n"))


def test_toml_says_the_same(tmp_path: Path) -> None:
    assert load_tree(written(tmp_path, '[runner]\ncheck = "off"\n', "spec.toml")) == {"runner": {"check": "off"}}
    with pytest.raises(UsageError, match="is not TOML"):
        load_tree(written(tmp_path, "a = \n", "bad.toml"))


STEADY = {"regime": "steady"}


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"workload": STEADY, "runer": {}}, "unknown key 'runer'; did you mean 'runner'?"),
        (
            {"workload": STEADY, "runner": {"blok_size": 1}},
            "runner: unknown key 'blok_size'; did you mean 'block_size'?",
        ),
        ({"workload": {"trace": {"path": "x"}}}, "workload.trace: unknown key 'path'; known: file, format"),
        ({"workload": STEADY, "runner": {"block_size": "16"}}, "runner.block_size: Expected int, got str"),
        ({"workload": STEADY, "runner": {"block_size": True}}, "runner.block_size: Expected int, got bool"),
        (
            {"workload": STEADY, "runner": {"commit_order": "second"}},
            "runner.commit_order: Invalid enum value 'second'; one of: first, last, skip",
        ),
        ({"workload": STEADY, "runner": {"capture_sizes": [1, "2"]}}, "runner.capture_sizes[1]: Expected int, got str"),
        (
            {"workload": STEADY, "runner": {"kv_groups": "full"}},
            "runner.kv_groups: Expected array, got str; write a list, in brackets",
        ),
        (
            {"workload": STEADY, "runner": {"speculative": "yes"}},
            "runner.speculative: Invalid enum value 'yes'; one of: off, or a whole number",
        ),
        ({"workload": STEADY, "device": "tpu"}, "device: Invalid enum value 'tpu'; one of: auto, cpu, sim, cuda"),
        ({"workload": STEADY, "measure": {"steps": 0}}, "measure.steps: 0 is too small; at least 1"),
        ({"workload": {}}, "workload: give exactly one of regime, trace, generator and case (given: none)"),
        ({"workload": {"case": "d=1@8"}}, "measure.steps: a case has no end of its own"),
        ({"workload": {"case": "d=1@@8"}}, "workload.case: '1@@8' in 'd=1@@8': expected"),
        ({"workload": {**STEADY, "trace": {"file": "x"}}}, "(given: regime and trace)"),
        ({"workload": {"trace": {"file": "x", "speed": 0}}}, "workload.trace.speed: 0.0 must be above 0"),
    ],
)
def test_a_bad_field_is_named(tree: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_point(tree)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_given_keeps_its_default() -> None:
    spec = parse_point({"workload": {"regime": "churn"}, "runner": {"capture_sizes": [1, 2]}})
    assert spec.workload.regime == "churn"
    assert spec.runner.capture_sizes == (1, 2)
    assert spec.measure == PointSpec().measure
