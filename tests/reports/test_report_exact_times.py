"""Timestamps of 2^60 and beyond come out with every digit, in every format and through a folder on disk."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from stepscope.instrumentation.recording.reader import Recording
from stepscope.reports import FORMATS, render
from stepscope.reports.jsonable import plain, to_json

BASE = 2**60 + 1  # no float64 holds it: the next ones are 2^60 and 2^60 + 256
STEP = 1_000_000
LAST_WORK = 900_000
SLOWEST = 4  # all steps are equally long: the last of them counts as the slowest


@pytest.fixture(params=FORMATS)
def format_(request):
    return request.param


def assert_exact(text: str) -> None:
    """The slowest step's borders stand there digit by digit, and no neighbour that a float would make of them."""
    start, end = BASE + STEP * SLOWEST, BASE + STEP * SLOWEST + LAST_WORK
    assert str(start) in text
    assert str(end) in text
    for wrong in (float(start), float(end)):
        assert str(int(wrong)) not in text


def test_every_format_prints_the_step_borders_exactly(pages, format_):
    assert_exact(pages("beyond_2_60", format_))


def test_also_from_disk_and_with_a_null_among_the_times(recordings, tmp_path):
    made = recordings(5, base_ns=BASE)
    made.tables["steps"].loc[3, ["period_ns", "latency_ns"]] = pd.NA
    made.tables["spans"].loc[5, "start_ns"] = pd.NA
    assert_exact(render(Recording.load(made.save(tmp_path / "rec")), "md"))


def test_json_bars_are_exact(pages):
    report = json.loads(pages("beyond_2_60", "json"))
    bars = report["content"]["timelines"][0]["bars"]
    assert min(bar["start_ns"] for bar in bars) == report["content"]["timelines"][0]["start_ns"]
    assert all(isinstance(bar["start_ns"], int) and (bar["start_ns"] - BASE) % 1000 == 0 for bar in bars)


def test_a_null_does_not_turn_its_column_into_floats():
    frame = pd.DataFrame({"t": pd.array([BASE, None], dtype="Int64"), "x": pd.array([0.5, None], dtype="Float64")})
    assert plain(frame) == [{"t": BASE, "x": 0.5}, {"t": None, "x": None}]


def test_json_has_no_nan_and_no_infinity():
    value = {"a": float("nan"), "b": np.float64("inf"), "c": np.int64(3), "d": pd.NaT, "e": (np.bool_(True), {2, 1})}
    assert json.loads(to_json(value)) == {"a": None, "b": None, "c": 3, "d": None, "e": [True, [1, 2]]}
