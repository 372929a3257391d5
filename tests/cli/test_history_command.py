"""perf history, end to end: files and folders in, commit ranges and exit codes out, in every format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepscope.analysis.gate.history import Result
from stepscope.analysis.history.series import Stored, gather
from stepscope.experiments.history.changes import HistoryQuery, find_history
from stepscope.reports.history.rendering import render_history

pytest.importorskip("ruptures")
ENV = {"gpu": "NVIDIA H200", "driver": "580.1"}
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"


def result(value, number=0, *, commit=True, **changed):
    tree = {"schema": 1, "env": ENV, "points": {"decode": {"metrics": {"period_p50_ns": value}}}, **changed}
    if commit:
        tree |= {"commit": f"{number:040x}", "time": f"2026-01-{1 + number:02d}T00:00:00Z"}
    return tree


def values(before=16, after=8, effect=0.06):
    rng = np.random.default_rng(1)
    levels = [1e7] * before + [1e7 * (1 + effect)] * after
    return [float(level * np.exp(0.008 * rng.standard_normal())) for level in levels]


@pytest.fixture
def store(tmp_path):
    """store(tree, name) writes a file; store() the usual history with a step at commit 16."""

    def write(tree=None, name="history.json"):
        usual = {"schema": 1, "results": [result(value, number) for number, value in enumerate(values())]}
        path = tmp_path / name
        path.write_text(tree if isinstance(tree, str) else json.dumps(usual if tree is None else tree))
        return path

    return write


def test_a_history_names_the_range(perf, store):
    ended = perf("history", store())
    assert ended.code == 0, ended.err
    flat = " ".join(ended.out.split())
    assert "decode, period_p50_ns: slower since 000000000000..000000000000: " in flat
    assert "16 results before and 8 after" in flat
    assert perf("history", store(), "--fail-on-slower").code == 1


def test_json_has_whole_commits_and_is_strict(perf, store):
    tree = json.loads(perf("history", store(), "--format", "json").out)
    (series,) = tree["series"]
    (step,) = series["steps"]
    assert step["last_good"]["commit"] == f"{15:040x}"
    assert step["first_bad"] == {
        "commit": f"{16:040x}", "time": "2026-01-17T00:00:00+00:00", "label": "history.json[16]",
    }  # fmt: skip
    assert (step["slower"], step["within_commit"], series["state"]) == (True, None, "steps")
    assert tree["machines"] == [ENV]


def test_a_page_and_markdown_say_the_same(perf, store, tmp_path):
    page = tmp_path / "out.html"
    assert perf("history", store(), "--format", "html", "-o", page).out == f"{page}\n"
    text = page.read_text()
    assert "slower since" in text
    assert "<script src=" not in text
    assert "slower since" in perf("history", store(), "--format", "md").out


def test_files_of_a_folder_are_ordered_by_time_not_by_name(perf, store, tmp_path):
    for number, value in enumerate(values()):
        store(result(value, number), f"{99 - number}.json")
    tree = json.loads(perf("history", tmp_path, "--format", "json").out)
    assert tree["in_time"] is True
    assert tree["series"][0]["steps"][0]["first_bad"]["label"] == "83.json"


def test_results_without_a_commit_are_named_by_their_place(perf, store):
    results = [result(value, number, commit=False) for number, value in enumerate(values())]
    tree = json.loads(perf("history", store({"schema": 1, "results": results}), "--format", "json").out)
    assert tree["in_time"] is False
    assert tree["series"][0]["steps"][0]["first_bad"] == {"commit": None, "time": None, "label": "history.json[16]"}


@pytest.mark.parametrize(("wrong", "code"), [
    (None, 3), (0.0, 3), (float("nan"), 3), (float("inf"), 3), (-1.0, 3),
])
def test_what_was_never_measured_is_an_error(perf, store, wrong, code):
    results = [result(wrong, number) for number in range(20)]
    assert perf("history", store({"schema": 1, "results": results})).code == code


@pytest.mark.parametrize(("results", "code"), [
    ([result(v, n) for n, v in enumerate(values(5, 2))], 4),
    ([result(1e7, n) for n in range(20)], 4),
    ([result(v, n, env={}) for n, v in enumerate(values())], 3),
    ([result(v, n, points={"decode": {"status": "oom"}}) for n, v in enumerate(values())], 3),
    ([result(v, n, env={**ENV, "gpu": f"GPU {n}"}) for n, v in enumerate(values())], 4),
])
def test_too_short_unknown_failed_and_all_of_different_machines_decide_nothing(perf, store, results, code):
    ended = perf("history", store({"schema": 1, "results": results}))
    assert ended.code == code, ended.out
    assert "slower since" not in ended.out
    # what nobody looked through cannot alarm by chance
    assert "could be looked through; why stands below." in ended.out
    assert "by chance" not in ended.out


@pytest.mark.parametrize("gpu", ["none (sim, calibration h200: NVIDIA H200)", "none (cpu, calibration None)"])
def test_what_a_model_said_is_told_as_such(perf, store, gpu):
    results = [result(value, number, env={**ENV, "gpu": gpu}) for number, value in enumerate(values())]
    told = " ".join(perf("history", store({"schema": 1, "results": results})).out.split())
    modelled = "modelled: device times are of a queue model with the calibration h200: NVIDIA H200; host times are"
    assert (modelled in told) == ("sim" in gpu)


def test_one_result_is_no_plural(perf, store):
    assert "\n1 result, in the order of time; 1 series\n" in perf("history", store(result(1e7))).out


@pytest.mark.parametrize(("tree", "said"), [
    ("{", "is not whole JSON"), ("[]", "holds list"), ({"schema": 2}, "schema is 2"),
    ({"schema": 1, "results": []}, "results holds no list"),
    (result(1.0, commit=False, time="yesterday"), "time is 'yesterday'"),
    (result(1.0, commit=False, time="2026-02-30"), "time is '2026-02-30'"),
    ({**result(1.0), "commit": 7}, "commit is 7"),
    ({"schema": 1, "points": [{"point": "a"}], "machine": {}}, "is no result of a gate"),
    ({"schema": 9, "points": [], "machine": {}}, "schema is 9"),
])
def test_unusable_files_are_refused_in_one_line(perf, store, tree, said):
    ended = perf("history", store(tree))
    assert (ended.code, said in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err
    assert "history.json" in ended.err


def test_options_that_say_nothing_are_refused(perf, store, tmp_path):
    for options in (("--metric", "nothing"), ("--alpha", "0.9"), ("--commit", "x"), ("--min-effect", "nan")):
        assert perf("history", store(), *options).code == 2
    (tmp_path / "empty").mkdir()
    assert "holds no result" in perf("history", tmp_path / "empty").err
    assert "no such file" in perf("history", tmp_path / "nowhere.json").err


def test_without_ruptures_the_extra_is_named(perf, store, monkeypatch):
    monkeypatch.setitem(sys.modules, "ruptures", None)
    ended = perf("history", store())
    assert ended.code == 2
    assert ended.err == "perf: perf history: ruptures is not installed; pip install 'stepscope[history]'\n"


def test_results_are_added_one_at_a_time(perf, store, tmp_path):
    new, file = store(result(1e7, commit=False), "new.json"), tmp_path / "kept.json"
    for number in range(3):
        when = f"2026-02-0{number + 1}"
        ended = perf("history", new, "--into", file, "--commit", f"c{number}", "--time", when)
        assert ended.code == 0, ended.err  # too short to say anything yet, which is no fault of what was added
    kept = json.loads(file.read_text())["results"]
    assert [one["commit"] for one in kept] == ["c0", "c1", "c2"]
    assert kept[1] == {
        "schema": 1, "commit": "c1", "time": "2026-02-02T00:00:00+00:00", "env": ENV,
        "points": {"decode": {"status": "ok", "metrics": {"period_p50_ns": 1e7}}},
    }  # fmt: skip
    before = file.read_text()
    assert perf("history", new, "--into", file).code == 2
    assert perf("history", file, "--into", file, "--commit", "x").code == 2
    assert perf("history", new, "--into", new, "--commit", "x").code == 2
    broken = store("{", "broken.json")
    assert perf("history", new, "--into", broken, "--commit", "x").code == 2
    assert file.read_text() == before
    assert broken.read_text() == "{"


def test_the_same_result_of_a_commit_is_added_once(perf, store, tmp_path):
    new, other = store(result(1e7, commit=False), "new.json"), store(result(2e7), "b.json")
    file = tmp_path / "kept.json"
    assert perf("history", new, "--into", file, "--commit", "abc").code == 0
    before = file.read_text()
    again = perf("history", new, "--into", file, "--commit", "abc", "--time", "2026-02-01")
    assert (again.code, file.read_text()) == (0, before)
    assert again.err == f"perf: history: {file} has this result of abc already; not added again\n"
    for path, commit in ((other, "abc"), (new, "abd")):  # measured again; another commit that is as fast
        assert perf("history", path, "--into", file, "--commit", commit).err == ""
    assert len(json.loads(file.read_text())["results"]) == 3
    assert perf("history", file).code == 4


def test_what_is_not_a_number_is_added_as_not_measured(perf, store, tmp_path):
    new, file = store(result(float("nan"), commit=False), "new.json"), tmp_path / "kept.json"
    assert perf("history", new, "--into", file, "--commit", "abc").code == 3
    (kept,) = json.loads(file.read_text())["results"]
    assert kept["points"]["decode"]["metrics"] == {"period_p50_ns": None}


@pytest.mark.parametrize("wrong", ["12", [], True])
def test_a_value_of_another_kind_names_file_point_and_metric(perf, store, wrong):
    gate = gate_json(1e7, 0)
    gate["points"][0]["head"] = {"value": wrong}
    for tree in (result(wrong), gate):
        ended = perf("history", store(tree))
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert f"history.json: decode.period_p50_ns: is {wrong!r}; expected a number" in ended.err


def test_a_failed_point_is_kept_as_failed(perf, store, tmp_path):
    new = store(result(1e7, points={"a": {"status": "oom"}, "b": {"metrics": {"period_p50_ns": None}}}), "new.json")
    perf("history", new, "--into", tmp_path / "kept.json", "--commit", "x")
    (kept,) = json.loads((tmp_path / "kept.json").read_text())["results"]
    assert kept["points"] == {
        "a": {"status": "failed", "reason": "oom"}, "b": {"status": "ok", "metrics": {"period_p50_ns": None}},
    }  # fmt: skip


def gate_json(value, number):
    head = None if value is None else {"value": value, "low": value, "high": value}
    told = {"point": "decode", "metric": "period_p50_ns", "verdict": "PASS", "reason": "within_limit", "detail": ""}
    syncs = {"value": 1 + (number >= 10), "low": 1, "high": 2}
    points = [
        {**told, "head": head}, {**told, "metric": "syncs", "head": syncs},
        {**told, "point": "lost", "metric": "*", "verdict": "ERROR", "head": None},
    ]  # fmt: skip
    return {"schema": 1, "kind": "paired", "machine": ENV, "points": points, "commit": f"c{number}",
            "time": f"2026-01-{1 + number:02d}"}  # fmt: skip


def test_results_of_gates_are_a_history_of_their_heads(perf, store, tmp_path):
    for number, value in enumerate(values()):
        store(gate_json(value, number), f"gate-{number}.json")
    tree = json.loads(perf("history", tmp_path, "--format", "json").out)
    assert [(one["point"], one["metric"], one["steps"][0]["first_bad"]["commit"]) for one in tree["series"]] == [
        ("decode", "period_p50_ns", "c16"), ("decode", "syncs", "c10"),
    ]  # fmt: skip


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared bug cases are not beside the checkout")
def test_another_gpu_is_another_machine(perf):
    ended = perf("history", *sorted((SHARED / "53").glob("*.json")), "--format", "json")
    tree = json.loads(ended.out)
    assert ended.code == 4
    assert sorted(machine["gpu"] for machine in tree["machines"]) == ["NVIDIA A100-SXM4-80GB", "NVIDIA H200"]
    assert tree["unknown_machine"] == ["current_gpu_unknown.json"]
    assert sorted(len(one["values"]) for one in tree["series"]) == [1, 2]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared bug cases are not beside the checkout")
def test_a_cut_result_is_refused(perf):
    ended = perf("history", SHARED / "55" / "results" / "batch=16.json")
    assert (ended.code, ended.err.count("\n")) == (2, 1)


NAMES = st.text(st.characters(), min_size=1, max_size=20) | st.sampled_from(["<b>", "a|b", "\x00", "\ud800", "n" * 500])


@settings(max_examples=12, deadline=None, derandomize=True)
@given(point=NAMES, metric=NAMES.map(lambda name: f"{name}_ns"), commit=NAMES)
def test_any_name_is_written_in_every_format(point, metric, commit):
    results = [Stored(Result(ENV, {(point, metric): value}, {}), commit, commit) for value in values()]
    gathered = gather(results, list)
    assert len(gathered.series) == 1
    found = find_history_of(results)
    for format_ in ("text", "md", "json"):
        text = render_history(found.view(), format_, commit)
        text.encode()
        assert "\x00" not in text
    assert json.loads(text)["series"][0]["steps"]


def find_history_of(results):
    from stepscope.experiments.history import changes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "read_history", lambda paths: results)
        return find_history(HistoryQuery(()))
