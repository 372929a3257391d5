"""Figures of blocks from a recording written by hand, and where a slowdown sits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from stepscope.analysis.gate.block_values import BlockRange, block_values
from stepscope.analysis.gate.culprit import culprit

BLOCKS = [BlockRange(1, 3), BlockRange(5, 3)]


class Tables:
    def __init__(self, **tables):
        self.tables = {name: pd.DataFrame(rows) for name, rows in tables.items()}

    def table(self, name):
        return self.tables.get(name, pd.DataFrame())


def steps(**changed):
    """Steps 0 to 8; 1-3 and 5-7 are the blocks', with periods 10, 20, 90 and 11, 21, 91 ns."""
    period = [5000, 10, 20, 90, 5000, 11, 21, 91, 5000]
    rows = {"step": range(9), "start_ns": range(9), "period_ns": period, "num_syncs": 1, "num_launches": 5,
            "num_h2d": 4, "warmup": [p == 5000 for p in period], "complete": True}
    return {**rows, **changed}


def phases(*names, host=7, span=None):
    return {"step": [n for n in range(9) for _ in names], "name": list(names) * 9, "host_ns": host, "span_ns": span}


def test_medians_of_the_counted_steps_of_each_block():
    found = block_values(Tables(steps=steps(), phases=phases("preprocess", "forward")), BLOCKS, device_times=False)
    assert found.timed["period_p50_ns"].tolist() == [20, 21]
    assert found.timed["preprocess_p50_ns"].tolist() == [7, 7]
    assert "sample_p50_ns" not in found.timed  # nobody measured it: not 0, not there
    assert "forward_span_p50_ns" not in found.timed


def test_device_times_only_where_the_clock_was_real():
    tables = Tables(steps=steps(), phases=phases("preprocess", "forward", "sample", span=3))
    found = block_values(tables, BLOCKS, device_times=True)
    assert found.timed["forward_span_p50_ns"].tolist() == [3, 3]
    assert found.timed["device_p50_ns"].tolist() == [9, 9]


def test_a_step_without_a_period_makes_its_block_no_figure():
    period = [5000, 10, None, 90, 5000, 11, 21, 91, 5000]
    found = block_values(Tables(steps=steps(period_ns=pd.array(period, dtype="Int64"))), BLOCKS, device_times=False)
    assert np.isnan(found.timed["period_p50_ns"][0])
    assert found.timed["period_p50_ns"][1] == 21


def test_the_pace_is_that_of_windows_where_steps_are_pipelined():
    # GIVEN a rhythm of three steps in the first block, a period that is not known in the second
    period = [5000, *[30, 6, 12] * 4, 5000, *[10] * 11, None, 5000]
    table = {"step": range(27), "start_ns": range(27), "period_ns": pd.array(period, dtype="Int64"),
             "warmup": [p == 5000 for p in period], "complete": True}  # fmt: skip
    blocks = [BlockRange(1, 12), BlockRange(14, 12)]

    found = block_values(Tables(steps=table), blocks, device_times=False, in_flight=2).timed
    assert (found["pace_ns"][0], found["period_p50_ns"][0]) == (16, 12)
    assert np.isnan(found["pace_ns"][1])
    assert "pace_ns" not in block_values(Tables(steps=table), blocks, device_times=False).timed


def test_a_block_that_was_not_recorded_is_no_figure():
    found = block_values(Tables(steps=steps()), [*BLOCKS, BlockRange(20, 3)], device_times=False)
    assert np.isnan(found.timed["period_p50_ns"][2])


def test_two_processes_in_one_launch_are_nobodys():
    table = steps(pid=[1] * 5 + [2] * 4)
    found = block_values(Tables(steps=table), BLOCKS, device_times=False)
    assert found.timed == {}
    assert set(found.counted.values()) == {None}


def test_counts_are_of_the_blocks_steps_alone():
    kinds = ["pageable", "pageable", "pinned", "pageable"]
    copies = {"step": [0, 1, 5, 6], "direction": "h2d", "src_kind": kinds,
              "dst_kind": "device", "size_bytes": [1000, 100, 10, 1], "buffer": "positions"}
    buffers = {"step": [0, 1, 2, 5], "buffer": "positions", "hazard": ["observed", "none", "possible", "observed"]}
    dispatch = {"step": [0, 1, 2, 5], "size": pd.array([64, 64, None, 64], dtype="Int64"), "num_tokens": [1, 48, 7, 60]}
    found = block_values(
        Tables(steps=steps(), copies=copies, buffers=buffers, dispatch=dispatch), BLOCKS, device_times=False
    )
    assert found.counted == {"pageable_bytes": 101, "hazards": 2, "syncs": 6, "launches": 30, "h2d_count": 24,
                             "padding_share": Fraction(20, 135)}  # eager steps compute their own tokens


def test_what_no_row_tells_is_not_zero():
    found = block_values(Tables(steps=steps(num_syncs=None)), BLOCKS, device_times=False)
    assert found.counted == {"pageable_bytes": None, "hazards": None, "syncs": None, "launches": 30, "h2d_count": 24,
                             "padding_share": None}


@pytest.mark.parametrize(("phases", "ranges", "named"), [
    ({"preprocess": 50, "forward": 1}, {"build_indices": 48, "copy_inputs": 1}, ("preprocess", "build_indices")),
    ({"preprocess": 50, "forward": 1}, {"build_indices": 20, "copy_inputs": 20}, ("preprocess",)),
    ({"preprocess": 1, "forward": 49}, {"build_indices": 1}, ("forward",)),
    ({"preprocess": 20, "forward": 20, "sample": 10}, {}, ()),
    ({"between_steps": 50}, {"schedule": 50}, ("between_steps",)),
    ({}, {}, ()),
])  # fmt: skip
def test_where_a_slowdown_sits(phases, ranges, named):
    as_launches = [{name: np.array([value, value + 2.0]) for name, value in one.items()} for one in (phases, ranges)]
    assert culprit(51.0, *as_launches) == named
