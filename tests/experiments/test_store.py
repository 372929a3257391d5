"""The sweep's folder: plan first, whole points only, resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.plan import Plan, make_plan
from stepscope.experiments.store import PointResult, SweepStore
from stepscope.experiments.sweep_view import sweep_view


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
    store.begin(store.plan.points[0])
    assert store.status(store.plan.points[0]) is None
    store.clear_work()
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


DAMAGED = [b"", b'{"status": "o', b"[1]", b'"ok"', b"null", b'{"status": "ok"}', b"\xff\xfe", b'{"status": 1}']


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_summary_is_measured_again_and_costs_the_others_nothing(tmp_path: Path, content: bytes) -> None:
    # GIVEN a sweep of two measured points, the summary of one of them cut or not ours
    store = SweepStore.create(tmp_path / "s", plan_of(1, 4))
    measured(store, 0)
    measured(store, 1)
    (store.folder(store.plan.points[0]) / "summary.json").write_bytes(content)
    # THEN resume measures that one again, and a report shows the other and says why this one is missing
    assert store.done() == [store.plan.points[1]]
    first, second = sweep_view(store).points
    assert (first.status, first.reason) == ("skipped", "its summary.json is damaged; measure it again with --resume")
    assert second.status == "ok"


def test_a_summary_of_another_point_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    store = SweepStore.create(tmp_path / "s", plan_of(1, 4))
    measured(store, 0)
    first, second = store.plan.points
    shutil.copytree(store.folder(first), store.folder(second))
    assert store.done() == [first]


def test_a_lost_recording_costs_a_sweep_its_timeline_only(tmp_path: Path) -> None:
    store = SweepStore.create(tmp_path / "s", plan_of(1))
    measured(store, 0)
    shutil.rmtree(store.folder(store.plan.points[0]) / "recording")
    view = sweep_view(store)
    assert [point.status for point in view.points] == ["ok"]
    assert view.representatives == ()
    assert "block_size-1 is shown without its recording: " in view.notes[0]


def test_a_file_where_a_point_belongs_gives_way(tmp_path: Path) -> None:
    store = SweepStore.create(tmp_path / "s", plan_of(1))
    store.folder(store.plan.points[0]).write_text("in the way")
    measured(store, 0)
    assert len(store.done()) == 1


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
