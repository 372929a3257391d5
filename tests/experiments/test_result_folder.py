"""Folders of results: every run that names none gets one of its own, and a named one has one writer at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.experiments import result_folder, store, sweep
from stepscope.experiments.history import store as history_store
from stepscope.experiments.result_folder import new_folder, sole_writer
from stepscope.experiments.single import plan_single, run_single

FIELDS = {"device": "sim", "workload.settings": {"num_reqs": 2, "prompt_len": 4}, "measure.steps": 4}
SIZES = ["max_num_seqs=2", "max_num_batched_tokens=16", "max_model_len=64", "block_size=4"]


class _Stopped(result_folder.datetime):
    """A clock that stands still, or went back."""

    @classmethod
    def now(cls, tz: object = None) -> _Stopped:
        return cls(2026, 10, 25, 2, 30, 0)


def test_folders_of_one_second_are_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN runs that begin in the same second WHEN each asks for a new folder THEN no two get the same
    monkeypatch.setattr(result_folder, "datetime", _Stopped)
    made = [new_folder(tmp_path / "out", "run-").name for _ in range(3)]
    assert made == ["run-20261025-023000", "run-20261025-023000-2", "run-20261025-023000-3"]


def test_runs_of_one_second_keep_their_results_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(result_folder, "datetime", _Stopped)
    plan = plan_single(None, FIELDS, SIZES)
    for _ in range(2):
        assert run_single(plan, None, lambda done, total: None).exit_code == 0
    assert sorted(path.parent.name for path in Path("out").glob("*/summary.json")) == [
        "run-20261025-023000", "run-20261025-023000-2",
    ]  # fmt: skip


def test_a_folder_that_is_written_into_is_refused(tmp_path: Path) -> None:
    # GIVEN a run that has no recording on disk yet WHEN another one is to go into the same folder THEN it is refused
    plan = plan_single(None, FIELDS, SIZES)
    with sole_writer(tmp_path), pytest.raises(UsageError, match="another process writes its results there"):
        run_single(plan, tmp_path, lambda done, total: None, force=True)
    # and afterwards it is free
    assert run_single(plan, tmp_path, lambda done, total: None).exit_code == 0


def test_the_latest_sweep_is_the_one_begun_last_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(["20261130-120000-2", "20261130-120000-10", "nightly", "20261130-110000"]):
        plan = Path("sweep-out", name, "plan.json")
        plan.parent.mkdir(parents=True)
        plan.write_text("{}")
        os.utime(plan, (1_000_000 - age, 1_000_000 - age))
    named = [folder.name for folder in sweep._sweeps()]
    assert named == ["20261130-110000", "nightly", "20261130-120000-10", "20261130-120000-2"]


def test_the_commands_that_are_printed_can_be_pasted(tmp_path: Path) -> None:
    out = tmp_path / "my run"
    told = run_single(plan_single(None, FIELDS, SIZES), out, lambda done, total: None).text
    assert f"perf report '{out}' --format text" in told


def test_a_history_is_read_and_written_back_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a result that is added to a history WHEN what is stored there is read THEN the folder is held
    new = tmp_path / "new.json"
    new.write_text('{"schema": 1, "env": {"gpu": "G"}, "points": {"p": {"status": "ok", "metrics": {"m": 1.0}}}}')
    held = []

    def stored(store: Path) -> list[object]:
        with result_folder._opened(store.parent) as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held.append(store)
        return []

    monkeypatch.setattr(history_store, "_stored_trees", stored)
    assert history_store.add_result([new], tmp_path / "nightly.json", "c1", None)
    assert len(held) == 1


def test_a_time_before_the_first_year_is_refused() -> None:
    with pytest.raises(UsageError, match="give ISO 8601"):
        history_store.utc("0001-01-01T00:00:00+14:00", "--time")


def test_an_old_sweep_that_cannot_be_read_is_no_hindrance_to_a_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("cut", '{"version": 1, "poi'), ("other", '{"tool": "another"}')):
        plan = Path("sweep-out", name, "plan.json")
        plan.parent.mkdir(parents=True)
        plan.write_text(text)
    told = sweep.preview(sweep.Request(params=("regime=steady",)), None, resume=False)
    assert told.splitlines()[-1].startswith("36 points")


def test_of_two_sweeps_that_begin_in_one_folder_the_second_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a second sweep that has found the folder empty WHEN the first one writes its plan meanwhile
    plans = [plan_single(None, {**FIELDS, "measure.steps": steps}, SIZES) for steps in (4, 5)]
    held = store.writers_in_turn

    @contextmanager
    def overtaken(folder: Path) -> Iterator[None]:
        monkeypatch.setattr(store, "writers_in_turn", held)
        store.SweepStore.create(folder, plans[0])
        with held(folder):
            yield

    monkeypatch.setattr(store, "writers_in_turn", overtaken)
    with pytest.raises(UsageError, match="holds a sweep already"):
        store.SweepStore.create(tmp_path, plans[1])
    # THEN the plan is the first one's
    assert store.SweepStore.open(tmp_path).plan.points == plans[0].points


def test_a_sweep_that_is_gone_on_with_elsewhere_says_where_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a sweep of a trace that is named from the folder of the day
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    Path("trace.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,12,3\n")
    plan = plan_single(None, {"device": "sim", "workload.trace.file": "trace.csv"}, ["max_num_seqs=2"])
    created = store.SweepStore.create(Path("sweep"), plan)
    created.check_files(plan.points)
    assert created.plan.began_in == ".."
    # WHEN it is gone on with from another folder THEN one line names the file and that folder
    monkeypatch.chdir(tmp_path)
    again = store.SweepStore.resume(Path("there/sweep"), None)
    assert again.plan.points == plan.points
    with pytest.raises(UsageError, match=rf"trace\.csv: is not here, .* go on in {tmp_path / 'there'}, where this"):
        sweep.run_sweep(again, None)  # type: ignore[arg-type]
    # AND where no point is missing nothing is asked for
    again.check_files([])
    # AND in the right folder without the file, or where the plan does not say the folder, it is to be brought back
    monkeypatch.chdir(tmp_path / "there")
    Path("trace.csv").unlink()
    with pytest.raises(UsageError, match=r"trace\.csv: is not here, .*; bring it back$"):
        store.SweepStore.resume(Path("sweep"), None).check_files(plan.points)


def test_a_sweep_does_not_go_into_the_folder_of_a_run(tmp_path: Path) -> None:
    plan = plan_single(None, FIELDS, SIZES)
    run_single(plan, tmp_path / "run", lambda done, total: None)
    page = (tmp_path / "run" / "report.html").read_bytes()
    with pytest.raises(UsageError, match="holds a run, whose report this would replace"):
        store.SweepStore.create(tmp_path / "run", plan)
    assert (tmp_path / "run" / "report.html").read_bytes() == page
    assert not (tmp_path / "run" / "plan.json").exists()


def test_a_sweep_is_not_gone_on_with_after_its_trace_has_changed(tmp_path: Path) -> None:
    # GIVEN a sweep of a trace
    trace, root = tmp_path / "trace.csv", tmp_path / "sweep"
    rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,12,3\n"
    trace.write_text(rows)
    plan = plan_single(None, {"device": "sim", "workload.trace.file": str(trace)}, ["max_num_seqs=2"])
    store.SweepStore.create(root, plan)
    assert store.SweepStore.resume(root, None).plan.files.keys() == {str(trace)}
    # WHEN the trace gets a row more THEN what is missing would be of other requests: refused
    trace.write_text(f"{rows}2023-11-16 18:17:04.03,30,1\n")
    with pytest.raises(UsageError, match=f"{trace}: has changed since the sweep in {root} began"):
        store.SweepStore.resume(root, None)
    # AND as it was, or where it cannot be seen (points run elsewhere), the sweep goes on; so do plans without digests
    trace.write_text(rows)
    store.SweepStore.resume(root, None)
    trace.unlink()
    store.SweepStore.resume(root, None)
    tree = json.loads((root / "plan.json").read_text())
    del tree["files"]
    (root / "plan.json").write_text(json.dumps(tree))
    assert store.SweepStore.resume(root, None).plan.files == {}
