"""Ranges among the values of an axis, in a file and on the command line."""

from __future__ import annotations

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.axes import expand, parse_params, parse_zips, with_params
from stepscope.experiments.loading import parse_value
from stepscope.experiments.ranges import written_out


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("2^4:2^10", [16, 32, 64, 128, 256, 512, 1024]),
        ("10^0:10^2", [1, 10, 100]),
        ("2^0:2^0", [1]),
        ("1:4", [1, 2, 3, 4]),
        ("8:64:16", [8, 24, 40, 56]),
        ("8:64:8", [8, 16, 24, 32, 40, 48, 56, 64]),
        ("0:0", [0]),
        ("2^13", [8192]),
        (["2^3:2^5", 48, "2^6"], [8, 16, 32, 48, 64]),
        ([" 1 : 3 "], [1, 2, 3]),
        (["first", "last"], ["first", "last"]),
        (["synthetic:0.6", "window=128", "a:b"], ["synthetic:0.6", "window=128", "a:b"]),
    ],
)
def test_a_range_is_written_out(values: object, expected: list[object]) -> None:
    assert written_out("axis", values) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2^4:1000", "mixes two kinds of range"),
        ("2^4:3^5", "mixes two kinds of range"),
        ("16:2^10", "mixes two kinds of range"),
        ("2^4:2^10:2", "mixes two kinds of range"),
        ("1^4:1^9", "mixes two kinds of range"),
        ("9:3", "falls; write the smaller end first"),
        ("1:9:0", "has a step of 0"),
        ("1:", "is no range"),
        ("1:2:3:4", "is no range"),
        ("-4:4", "is no range"),
        ("1.5:4", "is no range"),
        ("2^99", "is too large"),
        ("2^1:2^99", "is too large"),
        ("2^2^2", "is no whole number"),
        ("1:1000000000000", "has 1000000000000 values; at most 100000"),
    ],
)
def test_what_is_no_range_is_refused_by_its_axis(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        written_out("grid.runner.block_size", [text])
    assert str(caught.value).startswith("grid.runner.block_size: ")
    assert words in str(caught.value)


def test_yaml_does_not_read_a_range_as_a_number_of_base_60() -> None:
    values = ["8:64", "1:30:10", "12", "0x10", "-3", "1_000", "1.5", ".5", "1e3"]
    assert [parse_value(value) for value in values] == ["8:64", "1:30:10", 12, 16, -3, 1000, 1.5, 0.5, 1000.0]


BASE = {"workload": {"regime": "steady"}}


def test_ranges_in_every_place() -> None:
    _, choices = expand(
        {**BASE, "grid": {"block_size": "2^2:2^4"}, "zip": {"seed": ["1:3"], "max_num_seqs": [4, 5, 6]}}
    )
    assert len(choices) == 9
    assert choices[0] == {"runner.block_size": 4, "workload.seed": 1, "runner.max_num_seqs": 4}
    assert parse_params(["block_size=2^2:2^3,48"]) == {"runner.block_size": [4, 8, 48]}


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"grid": {"block_size": ["2^2:2^4", 8]}}, "grid.runner.block_size: 8 is listed twice"),
        ({"grid": {"block_size": [4]}, "zip": {"runner.block_size": [8]}}, "runner.block_size is in two of grid, zip"),
        ({"grid": {"seed": [4]}, "points": [{"seed": 3}]}, "workload.seed is in two of grid, zip and points"),
    ],
)
def test_a_value_that_would_be_lost_is_refused(axes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand({**BASE, **axes})
    assert words in str(caught.value)


def test_the_same_value_twice_on_the_command_line_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--param runner\.block_size: 4 is listed twice; keep one"):
        parse_params(["block_size=4,8,4"])


def test_zip_on_the_command_line() -> None:
    zips = parse_zips(["max_num_seqs,table_width=8/512,64/8192"])
    assert zips == {"runner.max_num_seqs": [8, 64], "runner.table_width": [512, 8192]}
    tree = with_params({**BASE, "grid": {"table_width": [1, 2], "seed": [1, 2]}}, {}, zips)
    assert [tuple(choice.values()) for choice in expand(tree)[1]] == [
        (1, 8, 512), (1, 64, 8192), (2, 8, 512), (2, 64, 8192)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_num_seqs=1,2", "expected key1,key2=v1/v2"),
        ("max_num_seqs,table_width", "expected key1,key2=v1/v2"),
        ("max_num_seqs,table_width=1/2,3", "'3' has not one value for each of"),
        ("max_num_seqs,table_width=1/2/3", "'1/2/3' has not one value for each of"),
        ("max_num_seqs,table_width=1/", "'1/' has not one value for each of"),
        ("max_num_seqs,tble_width=1/2", "unknown parameter 'tble_width'; did you mean 'table_width'?"),
    ],
)
def test_a_malformed_zip_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_zips([text])
    assert words in str(caught.value)


def test_two_zips_are_one_too_many() -> None:
    zips = parse_zips(["max_num_seqs,table_width=8/512,64/8192"])
    with pytest.raises(UsageError, match="the spec zips seed, and --zip other parameters"):
        with_params({**BASE, "zip": {"seed": [1, 2]}}, {}, zips)
    with pytest.raises(UsageError, match=r"--zip: runner\.table_width is given by --param as well"):
        with_params(BASE, {"runner.table_width": [1]}, zips)
