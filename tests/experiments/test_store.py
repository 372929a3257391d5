"""The sweep's folder: plan first, whole points only, resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.plan import Plan, make_plan
from stepscope.experiments.store import PointResult, SweepStore


def plan_of(*sizes: int) -> Plan:
    tree = {"workload": {"regime": "steady"}, "device": "sim", "grid": {"block_size": list(sizes)}}
    return make_plan([("mine.yaml", tree)], {})


def measured(store: SweepStore, index: int, status: str = "ok") -> None:
    point = store.plan.points[index]
    temporary = store.begin(point)
    (temporary / "recording").mkdir()
    (temporary / "recording" / "steps.parquet").write_bytes(b"rows")
    result = PointResult(point, status, "" if status == "ok" else "broke")  # type: ignore[arg-type]
    store.finish(temporary, result, {"summary": {"steps": 3}})


def test_the_plan_is_on_disk_before_any_point(tmp_path: Path) -> None:
    store = SweepStore.create(tmp_path / "s", plan_of(1, 4))
    assert [p["slug"] for p in json.loads((store.root / "plan.json").read_text())["points"]] == [
        "block_size-1",
        "block_size-4",
    ]
    assert list((store.root / "points").iterdir()) == []


def test_a_point_appears_whole(tmp_path: Path) -> None:
    store = SweepStore.create(tmp_path / "s", plan_of(1))
    temporary = store.begin(store.plan.points[0])
    assert store.status(store.plan.points[0]) is None
    store.abandon(temporary)
    assert list((store.root / "points").iterdir()) == []
    measured(store, 0)
    point = store.plan.points[0]
    assert [path.name for path in (store.root / "points").iterdir()] == [f"block_size-1--{point.id}"]
    record = json.loads((store.folder(point) / "summary.json").read_text())
    assert (record["status"], record["reason"], record["summary"]) == ("ok", "", {"steps": 3})


def test_resume_skips_what_is_ok_and_measures_failed_ones_again(tmp_path: Path) -> None:
    store = SweepStore.create(tmp_path / "s", plan_of(1, 4, 16))
    measured(store, 0)
    measured(store, 1, "failed")
    again = SweepStore.resume(tmp_path / "s", None)
    assert again.plan == store.plan
    assert [again.status(p) for p in again.plan.points] == ["ok", "failed", None]
    measured(again, 1)
    assert len(again.done()) == 2


def test_a_damaged_summary_is_measured_again(tmp_path: Path) -> None:
    store = SweepStore.create(tmp_path / "s", plan_of(1))
    measured(store, 0)
    (store.folder(store.plan.points[0]) / "summary.json").write_text('{"status": "o')
    assert store.done() == []


def test_a_folder_holds_one_sweep(tmp_path: Path) -> None:
    SweepStore.create(tmp_path, plan_of(1))
    with pytest.raises(UsageError, match=r"holds a sweep already; add --resume"):
        SweepStore.create(tmp_path, plan_of(1))
    with pytest.raises(UsageError, match=r"was made for another plan \(2 points differ\)"):
        SweepStore.resume(tmp_path, plan_of(4))
    with pytest.raises(UsageError, match=r"holds no plan\.json"):
        SweepStore.resume(tmp_path / "elsewhere", None)


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match=r"file/points: cannot be written to \(Not a directory\); choose another"):
        SweepStore.create(tmp_path / "file", plan_of(1))
