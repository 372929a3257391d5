"""100,000 steps: the page stays small and shows the extremes."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from stepscope.instrumentation.recording.meta import RecordingMeta
from stepscope.instrumentation.recording.reader import Recording
from stepscope.instrumentation.recording.schema import KEYS, TABLES
from stepscope.reports import render
from stepscope.reports.decimation import keep_extremes

TYPES = {"int64": "Int64", "float64": "Float64", "string": "string", "bool": "boolean"}
NUM_STEPS, SLOWEST = 100_000, 54_321
BASE = 2**60


def table(name, num_rows, columns):
    frame = {}
    for column in (*KEYS, *TABLES[name]):
        values = columns.get(column.name)
        blank = pd.Series(pd.NA, index=range(num_rows), dtype=TYPES[column.type]).array
        frame[column.name] = blank if values is None else pd.array(values, dtype=TYPES[column.type])
    return pd.DataFrame(frame)


@pytest.fixture(scope="module")
def long_page():
    step = np.arange(NUM_STEPS)
    period = 1_000_000 + step % 977
    period[SLOWEST] = 77_000_000
    start = BASE + np.concatenate(([0], np.cumsum(period)[:-1]))
    parts = (("preprocess", 0.3), ("forward", 0.1), ("sample", 0.5), ("between_steps", 0.1))
    steps = table("steps", NUM_STEPS, {
        "step": step, "start_ns": start, "end_ns": start + period // 10 * 9, "period_ns": period,
        "num_tokens": step % 64, "warmup": np.zeros(NUM_STEPS, bool), "complete": np.ones(NUM_STEPS, bool),
    })
    phases = table("phases", 4 * NUM_STEPS, {
        "step": np.tile(step, 4), "name": np.repeat([name for name, _ in parts], NUM_STEPS),
        "host_ns": np.concatenate([(period * share).astype(np.int64) for _, share in parts]),
    })
    meta = RecordingMeta(source="lab", device="cpu", created="2026-11-30T12:00:00+00:00")
    return render(Recording.from_frames({"steps": steps, "phases": phases}, meta), "html", name="long")


def test_page_is_small_and_the_slowest_step_is_in_the_chart(long_page):
    assert len(long_page.encode()) < 8_000_000
    found = re.search(r'id="figures">(.*?)</script>', long_page, flags=re.DOTALL)
    chart = json.loads(found.group(1))["course"][0]
    course = chart["data"]
    assert len(course[0]["x"]) <= 1_500
    at = course[0]["x"].index(SLOWEST)
    assert course[0]["y"][at] == pytest.approx(23_100.0)
    # 77 ms would press the others, 1 ms each, flat: the axis ends above these, and the page says so
    assert 1_000 < chart["layout"]["yaxis"]["range"][1] < 1_100
    assert "Beyond the axis: the slowest counted ones (double-click shows them)." in long_page
    assert "steps are drawn: of each stretch its fastest and its slowest" in long_page


def test_the_slowest_step_can_be_chosen_with_its_exact_times(long_page):
    start = BASE + int((1_000_000 + np.arange(SLOWEST) % 977).sum())
    assert f"slowest: step {SLOWEST}" in long_page
    assert str(start) in long_page


@pytest.mark.parametrize("seed", range(20))
def test_decimation_keeps_the_extremes_of_each_stretch(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=int(rng.integers(1, 20_000)))
    values[rng.random(len(values)) < 0.1] = np.nan
    limit = int(rng.integers(2, 500))
    kept = keep_extremes(values, limit)
    assert (np.diff(kept) > 0).all()
    assert len(kept) <= max(limit, 2)
    if not np.isnan(values).all():
        assert {int(np.nanargmin(values)), int(np.nanargmax(values))} <= set(kept.tolist())


def test_decimation_leaves_short_series_alone():
    assert keep_extremes([3.0, 1.0, 2.0], 3).tolist() == [0, 1, 2]
    assert keep_extremes([], 10).tolist() == []
