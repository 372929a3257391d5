"""Missing, empty, renamed, failed, not a number, zero: on either side, by the exit code and in every output, no pass.

Cases 49 (unmeasured passes a gate), 53 (a baseline of other hardware) and 55 (a lost or cut result) of the bug reports
and their kinds. The inputs here are of hand; where the reports' own files are at hand they are run too.
"""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.result import GateResult
from stepscope.analysis.gate.suite import judge_suite
from stepscope.cli.gate_outputs import Output, parse_outputs, write_outputs
from stepscope.errors import UsageError
from stepscope.experiments.gate.stored import HistoryRequest, gate_history

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared bug cases are not beside the checkout")
ENV = {"gpu": "NVIDIA H200", "driver": "550.54", "torch": "2.8.0", "mig": False}
TIMES = (10.003, 10.05, 9.95, 10.02, 9.98, 10.04, 9.96, 10.01, 9.99, 10.006)
METRIC = "step_ms_p50"
WRITTEN = ("json", "junit", "markdown", "html", "bmf", "gab", "openmetrics", "prometheus", "pytorch-v3", "annotations",
           "github-summary")  # fmt: skip


def good(time=10.0):
    points = {name: {"status": "ok", "metrics": {METRIC: time}} for name in "ab"}
    return {"schema": 1, "env": dict(ENV), "points": points}


def history():
    return {"schema": 1, "results": [good(time) for time in TIMES]}


def value(new):
    def change(tree):
        tree["points"]["b"]["metrics"][METRIC] = new

    return change


def drop(*path):
    def change(tree):
        for name in path[:-1]:
            tree = tree[name]
        del tree[path[-1]]

    return change


def put(new, *path):
    def change(tree):
        for name in path[:-1]:
            tree = tree[name]
        tree[path[-1]] = new

    return change


def renamed_point(tree):
    tree["points"]["b "] = tree["points"].pop("b")


def renamed_metric(tree):
    tree["points"]["b"]["metrics"]["step_p50_ms"] = tree["points"]["b"]["metrics"].pop(METRIC)


KINDS = {
    "null": value(None), "NaN": value(math.nan), "infinite": value(math.inf), "zero": value(0.0),
    "minus zero": value(-0.0), "negative": value(-10.0), "whole zero": value(0), "text": value("10.0"),
    "true": value(True), "a list": value([10.0]), "point missing": drop("points", "b"),
    "metric missing": drop("points", "b", "metrics", METRIC), "no metrics": put({}, "points", "b", "metrics"),
    "metrics null": put(None, "points", "b", "metrics"), "metrics absent": drop("points", "b", "metrics"),
    "point null": put(None, "points", "b"), "point empty": put({}, "points", "b"), "no points": put({}, "points"),
    "points null": put(None, "points"), "renamed point": renamed_point, "renamed metric": renamed_metric,
    "oom": put("oom", "points", "b", "status"), "failed": put("failed", "points", "b", "status"),
    "timeout": put("timeout", "points", "b", "status"), "status null": put(None, "points", "b", "status"),
    "status empty": put("", "points", "b", "status"), "OK is not ok": put("OK", "points", "b", "status"),
    "no env": drop("env"), "env empty": put({}, "env"), "env null": put(None, "env"),
    "gpu unknown": put("unknown", "env", "gpu"), "other gpu": put("NVIDIA A100", "env", "gpu"),
    "other driver": put("999.1", "env", "driver"), "driver lost": drop("env", "driver"), "no schema": drop("schema"),
    "newer schema": put(2, "schema"),
}  # fmt: skip


@pytest.fixture
def judged(perf, tmp_path, monkeypatch):
    """judged(baseline, head) → what it ended with, and the text of every output."""
    summary = tmp_path / "step-summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setattr("os.fsync", lambda handle: None)  # the disk's time is not what is tested

    def call(baseline, head, *, light=False):
        for name, tree in (("baseline", baseline), ("head", head)):
            (tmp_path / f"{name}.json").write_text(tree if isinstance(tree, str) else json.dumps(tree))
        files = {name: tmp_path / f"out-{name}" for name in WRITTEN if not (light and name == "html")}
        options = [word for name, path in files.items() for word in ("--write", f"{name}={path}")]
        ended = perf("gate", "--baseline", tmp_path / "baseline.json", "--head", tmp_path / "head.json", *options)
        return ended, {name: path.read_text() for name, path in files.items() if path.exists()}

    return call


@pytest.fixture(scope="module")
def directly(tmp_path_factory):
    """directly(baseline, head) → the exit code, without the command line: many inputs in little time."""
    folder = tmp_path_factory.mktemp("directly")

    def call(baseline, head):
        for name, tree in (("baseline", baseline), ("head", head)):
            (folder / f"{name}.json").write_text(json.dumps(tree))
        try:
            result = gate_history(HistoryRequest((folder / "baseline.json",), folder / "head.json"))
        except UsageError as error:
            return error.exit_code
        return result.suite.exit_code

    return call


def assert_no_pass(ended, texts):
    assert ended.code in (2, 3, 4, 5), ended
    assert ended.err.count("\n") == 1
    if ended.code == 2:
        assert texts == {}
        return
    assert set(texts) >= {*WRITTEN} - {"html"}
    assert json.loads(texts["json"])["verdict"] != "PASS"
    suite = ElementTree.fromstring(texts["junit"].encode()).find("testsuite")
    assert int(suite.get("errors")) + int(suite.get("skipped")) > 0
    for case in suite.iter("testcase"):
        if len(case) == 0:  # what passes in JUnit is the sound point, by its own name
            assert case.get("name") == f"a::{METRIC}"
    assert texts["annotations"].startswith(("::error title=perf gate", "::warning title=perf gate"))
    for name in ("markdown", "github-summary"):
        assert texts[name].lstrip("# ").startswith("perf gate: ")
        assert "perf gate: PASS" not in texts[name]
        assert not [line for line in texts[name].splitlines() if line.startswith("| **PASS** ") and "b::" in line]
    assert 'verdict="PASS",kind' not in texts["openmetrics"]
    assert "perf_gate_exit_code 0" not in texts["openmetrics"]


def test_the_sound_history_passes_so_that_the_rest_means_something(judged):
    ended, texts = judged(history(), good())
    assert ended.code == 0, ended.err
    assert list(json.loads(texts["bmf"])) == ["a", "b"]
    assert set(texts) == set(WRITTEN)


@pytest.mark.parametrize("kind", KINDS)
def test_of_the_head(judged, kind):
    head = good()
    KINDS[kind](head)
    ended, texts = judged(history(), head, light=True)
    assert_no_pass(ended, texts)
    if ended.code == 3:
        assert "b" not in json.loads(texts["bmf"])
        assert "b " not in "".join(entry["name"][:2] for entry in json.loads(texts["gab"]))


@pytest.mark.parametrize("kind", KINDS)
def test_of_the_newest_stored_result(directly, kind):
    stored = history()
    KINDS[kind](stored["results"][-1])
    code = directly(stored, good())
    if kind == "no schema":
        assert code == 0  # the file's own says it
    else:
        assert code in (2, 3, 4, 5)  # at best nine results are left, too few for a pass


@pytest.mark.parametrize("kind", KINDS)
def test_of_all_results_alike(directly, kind):
    stored, head = history(), good()
    for tree in (*stored["results"], head):
        KINDS[kind](tree)
    code = directly(stored, head)
    if kind in ("renamed point", "renamed metric", "other gpu", "other driver", "driver lost"):
        assert code == 0  # the same everywhere is nothing renamed, and no other machine
    elif kind == "point missing":
        assert code == 0  # nobody says that there is a point b
    else:
        assert code in (2, 3, 4, 5)


@pytest.mark.parametrize(
    "text", ["", "{}", "null", "[]", "0", "{\"schema\": 1", "NaN", "\x00", "{\"schema\": 1, \"results\": []}"]
)
def test_files_that_hold_nothing(judged, text):
    for baseline, head in ((text, good()), (history(), text), (text, text)):
        ended, texts = judged(baseline, head)
        assert ended.code == 2
        assert_no_pass(ended, texts)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
                    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(
                        ["schema", "env", "points", "metrics", "status", "gpu", METRIC, "a", "results"]), below,
                        max_size=3), max_leaves=8), st.sampled_from([("points", "b"), ("points", "b", "metrics"),
                                                                     ("points",), ("env",), ("points", "b", "status"),
                                                                     ("points", "b", "metrics", METRIC)]))  # fmt: skip
def test_any_tree_in_any_place_passes_only_as_a_number(directly, tree, place):
    head = good()
    put(tree, *place)(head)
    code = directly(history(), head)
    is_time = isinstance(tree, int | float) and not isinstance(tree, bool) and tree > 0 and math.isfinite(tree)
    if place[-1] == METRIC and is_time:
        assert code in (0, 1, 4)
    else:
        assert code in (2, 3, 4, 5)


@needs_shared
def test_tokens_that_were_never_timed_are_no_value_and_no_pass(judged):
    # Case 49: the time a token needs two tokens; a mean over none is null, and a gate on it does not pass.
    rows = list(csv.DictReader((SHARED / "49" / "requests.csv").read_text().splitlines()))

    def tpot(row):
        if not row["latency_ms"] or int(row["output_tokens"]) < 2:
            return None
        return (float(row["latency_ms"]) - float(row["ttft_ms"])) / (int(row["output_tokens"]) - 1)

    times = {row["req"]: tpot(row) for row in rows}
    assert times == {"a": None, "b": 10.0, "c": None}

    def stored(time):
        points = {name: {"metrics": {"tpot_ms": time}} for name in times}
        return {"schema": 1, "env": ENV, "points": points}

    head = {"schema": 1, "env": ENV, "points": {name: {"metrics": {"tpot_ms": one}} for name, one in times.items()}}
    ended, texts = judged({"schema": 1, "results": [stored(time) for time in TIMES]}, head)
    assert ended.code == 3
    assert list(json.loads(texts["bmf"])) == ["b"]
    for wrong in (0.0, math.nan, math.inf):
        head["points"]["a"]["metrics"]["tpot_ms"] = wrong
        assert judged({"schema": 1, "results": [stored(time) for time in TIMES]}, head)[0].code == 3


@needs_shared
@pytest.mark.parametrize(("head", "code"), [("other_gpu", 5), ("gpu_unknown", 5), ("same_gpu_clock_off_by_1", 4)])
def test_a_baseline_of_other_hardware(judged, head, code):
    files = SHARED / "53"
    baseline, current = ((files / name).read_text() for name in ("baseline.json", f"current_{head}.json"))
    ended, texts = judged(baseline, current)
    assert ended.code == code
    assert_no_pass(ended, texts)
    if code == 5:
        assert "NVIDIA A100-SXM4-80GB" in texts["junit"]


@needs_shared
def test_a_sweep_that_lost_points(judged):
    # Case 55: 8 ok, 16 cut, 32 out of memory, 64 ok.
    cut = (SHARED / "55" / "results" / "batch=16.json").read_text()
    assert judged(history(), cut)[0].code == 2
    points = {str(batch): {"status": "ok", "metrics": {METRIC: 5.0}} for batch in (8, 16, 32, 64)}
    stored = {"schema": 1, "results": [
        {"env": ENV, "points": {k: {**p, "metrics": {METRIC: t}} for k, p in points.items()}} for t in TIMES
    ]}  # fmt: skip
    head = {"schema": 1, "env": ENV, "points": {**points, "32": {"status": "oom", "metrics": None}}}
    ended, texts = judged(stored, head)
    assert ended.code == 3
    assert "32" not in json.loads(texts["bmf"])
    assert "32::measurement" in texts["junit"]


def test_outputs_that_cannot_be_are_refused_before_anything_is_measured(perf, tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for wanted, said in (
        ("nothing=x", "there is no format 'nothing'"), ("junit", "needs a file"), (f"junit={tmp_path}", "is a folder"),
        (f"junit={tmp_path}/no/x", "a folder that does not exist"),
        ("github-summary", "$GITHUB_STEP_SUMMARY is not set"),
    ):  # fmt: skip
        ended = perf("gate", "--baseline", "no.json", "--head", "no.json", "--write", wanted)
        assert (ended.code, said in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err
    both = ["--write", f"junit={tmp_path}/x", "--write", f"bmf={tmp_path}/x"]
    assert "overwrite each other" in perf("gate", "--baseline", "no.json", "--head", "no.json", *both).err
    assert parse_outputs([f"junit={tmp_path}/a=b.xml"])[0].path.name == "a=b.xml"


def test_a_summary_is_added_to_what_the_step_has_said(judged, tmp_path):
    summary = tmp_path / "step-summary.md"
    summary.write_text("## before\n")
    judged(history(), good(12.0))
    text = summary.read_text()
    assert text.startswith("## before\n")
    assert "## perf gate: FAIL" in text
    summary.write_text("x" * 999_900)
    judged(history(), good(12.0))
    assert "## perf gate: FAIL" in summary.read_text()
    assert summary.stat().st_size <= 1_000_000


def test_one_output_that_cannot_be_written_keeps_no_other_from_being_written(tmp_path):
    wanted = (Output("junit", tmp_path / "gone" / "x"), Output("bmf", tmp_path / "bmf.json"))
    judged = GateResult(judge_suite([], Limits()), "history", "", "", ENV)
    with pytest.raises(FileNotFoundError):
        write_outputs(judged, wanted, {})
    assert json.loads((tmp_path / "bmf.json").read_text()) == {}
