"""Columns: exact integers beside nulls, absent columns, rows of rows, and nothing that writes through them."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd
import pytest
from stepscope.analysis.columns import Columns
from stepscope.analysis.tables import processes
from stepscope.instrumentation.garbage import collector_held_back

BASE = 2**60


def frame() -> pd.DataFrame:
    return pd.DataFrame({
        "time": pd.array([BASE + 1, None, BASE + 3, BASE + 4], dtype="Int64"),
        "name": pd.array(["copy", None, "forward", "copy"], dtype="string"),
        "done": pd.array([True, None, False, True], dtype="boolean"),
        "value": pd.array([0.5, None, 1.5, 2.5], dtype="Float64"),
        "blank": pd.Series([None] * 4, dtype=object),
        "plain": [1, 2, 3, 4],
    })


def test_values_and_validity_are_exact_beyond_2_53() -> None:
    columns = Columns(frame())
    values, valid = columns.ints("time")
    assert values.tolist() == [BASE + 1, 0, BASE + 3, BASE + 4]
    assert (values.dtype, valid.tolist()) == (np.int64, [True, False, True, True])
    assert columns.floats("value")[0].tolist() == [0.5, 0.0, 1.5, 2.5]
    assert columns.ints("plain")[0].tolist() == [1, 2, 3, 4]
    assert columns.texts("name") == ["copy", None, "forward", "copy"]
    assert columns.flags("done", null=True).tolist() == [True, True, False, True]
    assert columns.flags("done", null=False).tolist() == [True, False, False, True]


@pytest.mark.parametrize("name", ["blank", "absent"])
def test_what_was_not_recorded_reads_as_null(name: str) -> None:
    for columns in (Columns(frame()), Columns(frame())[np.array([False, True, True, True])]):
        for _, valid in (columns.ints(name), columns.floats(name)):
            assert not valid.any()
            assert len(valid) == len(columns)
        assert columns.texts(name) == [None] * len(columns)
        assert not columns.matches(name, "copy").any()
        assert columns.flags(name, null=True).all()


def test_rows_of_rows_are_those_of_the_table() -> None:
    columns = Columns(frame())
    part = columns[np.array([True, False, True, True])]
    copies = part[part.matches("name", "copy")]
    assert (len(part), len(copies), len(copies[np.zeros(2, dtype=np.bool_)])) == (3, 2, 0)
    assert copies.ints("time")[0].tolist() == [BASE + 1, BASE + 4]
    assert copies.texts("name") == ["copy", "copy"]
    assert copies.matches("name", "forward", "copy").tolist() == [True, True]
    assert part.matches("name", "forward", "nowhere").tolist() == [False, True, False]


def test_a_fraction_is_no_integer() -> None:
    with pytest.raises((TypeError, ValueError)):
        Columns(frame()).ints("value")


def test_nobody_writes_into_a_shared_column() -> None:
    table = frame()
    values, _ = Columns(table).ints("plain")
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 7
    table.loc[0, "plain"] = 9  # the frame stays its owner's: the column is a copy
    assert values.tolist() == [1, 2, 3, 4]


def test_processes_are_told_apart_by_keys_and_a_null_key_is_one_of_them(source) -> None:
    rows = [{"step": number, "pid": pid, "host": host} for number, (pid, host) in enumerate(
        [(2, "b"), (1, "b"), (None, "b"), (2, "b"), (2, "a"), (1, "b")])]
    found = processes(source(steps=rows, waits=[{"pid": 1, "host": "b", "reason": "tokens"}]))
    assert [(part.keys["pid"], part.keys["host"]) for part in found] == [(2, "b"), (1, "b"), (None, "b"), (2, "a")]
    assert [part.rows("steps").ints("step")[0].tolist() for part in found] == [[0, 3], [1, 5], [2], [4]]
    assert [len(part.rows("waits")) for part in found] == [0, 1, 0, 0]
    assert found[1].rows("steps") is found[1].rows("steps")


def test_counted_rows_leave_warmup_and_incomplete_steps_out(source) -> None:
    steps = [{"step": 0, "warmup": True}, {"step": 1, "complete": False}, {"step": 2}, {"step": None}]
    [process] = processes(source(steps=steps, copies=[{"step": step} for step in (0, 1, 2, 2, None)]))
    assert process.counted_numbers().tolist() == [2]
    assert process.counted("copies").ints("step")[0].tolist() == [2, 2]


def test_the_collector_is_left_as_it_was() -> None:
    with collector_held_back():
        assert not gc.isenabled()
        with collector_held_back():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
