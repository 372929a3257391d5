"""A sweep's tables as data sets that pandas and pyarrow read, in step with its points."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from stepscope.experiments.data_set import DataSet
from stepscope.experiments.plan import make_plan
from stepscope.experiments.store import PointResult, SweepStore


def store_in(root: Path) -> SweepStore:
    tree = {
        "workload": {"regime": "steady"},
        "device": "sim",
        "grid": {"seed": [1, 2, 3], "capture_sizes": ["exact", [1, 2]]},
    }
    return SweepStore.create(root, make_plan([("t", tree)], {}))


def measure(store: SweepStore, index: int, status: str = "ok", period: object = 5) -> None:
    point = store.plan.points[index]
    folder = store.begin(point)
    (folder / "recording").mkdir()
    rows = {"point": [point.id] * 2, "launch": [0, 0], "period_ns": pa.array([7 + index, None], pa.int64())}
    pq.write_table(pa.table(rows), folder / "recording" / "steps.parquet")
    store.finish(
        folder, PointResult(point, status, "" if status == "ok" else "broke"), {"metrics": {"period_ns": period}}
    )  # type: ignore[arg-type]
    DataSet(store).add(point)


def test_all_points_are_one_table(tmp_path: Path) -> None:
    store = store_in(tmp_path / "s")
    measure(store, 0)
    measure(store, 1)
    measure(store, 2, "failed")
    # THEN both readers find the rows of those that ended well, with their types
    frame = pd.read_parquet(tmp_path / "s" / "tables" / "steps")
    assert sorted(frame["point"].unique()) == sorted(point.id for point in store.plan.points[:2])
    table = ds.dataset(tmp_path / "s" / "tables" / "steps").to_table()
    assert table.schema.field("period_ns").type == pa.int64()
    assert table.num_rows == 4
    # AND the bytes are on the disk once
    (linked,) = (tmp_path / "s" / "tables" / "steps").glob(f"*{store.plan.points[0].key}*")
    assert os.path.samefile(linked, store.folder(store.plan.points[0]) / "recording" / "steps.parquet")


def test_a_sync_makes_good_what_a_kill_or_a_user_left(tmp_path: Path) -> None:
    store = store_in(tmp_path / "s")
    measure(store, 0)
    measure(store, 1)
    shutil.rmtree(tmp_path / "s" / "tables")
    DataSet(store).sync()
    assert len(pd.read_parquet(tmp_path / "s" / "tables" / "steps")) == 4
    measure(store, 1, "failed")  # it gives way to a failure, and so do its rows
    stray = tmp_path / "s" / "tables" / "steps" / "nobody.parquet"
    stray.write_bytes(b"")
    DataSet(store).sync()
    assert set(pd.read_parquet(tmp_path / "s" / "tables" / "steps")["point"]) == {store.plan.points[0].id}


def test_a_damaged_file_does_not_make_the_others_unreadable(tmp_path: Path) -> None:
    store = store_in(tmp_path / "s")
    measure(store, 0)
    measure(store, 1)
    (store.folder(store.plan.points[1]) / "recording" / "steps.parquet").write_bytes(b"PAR1 cut")
    DataSet(store).sync()
    assert set(pd.read_parquet(tmp_path / "s" / "tables" / "steps")["point"]) == {store.plan.points[0].id}


def test_a_disk_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no hard links")

    monkeypatch.setattr(os, "link", refuse)
    store = store_in(tmp_path / "s")
    measure(store, 0)
    DataSet(store).sync()
    assert len(pd.read_parquet(tmp_path / "s" / "tables" / "steps")) == 2


def test_the_summary_has_a_row_a_launch_with_types(tmp_path: Path) -> None:
    store = store_in(tmp_path / "s")
    measure(store, 0, period=5)
    measure(store, 1, period=2.5)
    measure(store, 2, "failed", period=None)
    table = pq.read_table(DataSet(store).write_summary())
    assert table.column("status").to_pylist() == ["ok", "ok", "failed", "missing", "missing", "missing"]
    assert table.column("p_workload.seed").to_pylist() == [1, 1, 2, 2, 3, 3]
    assert table.column("p_runner.capture_sizes").to_pylist()[:2] == ["exact", "[1, 2]"]
    assert table.column("period_ns").to_pylist() == [5.0, 2.5, None, None, None, None]
    assert table.column("reason").to_pylist()[2] == "broke"
    assert pd.read_parquet(tmp_path / "s" / "summary.parquet").shape == (6, table.num_columns)
