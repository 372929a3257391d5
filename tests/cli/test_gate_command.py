"""perf gate against stored results, end to end: verdict, exit code, Markdown and JUnit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
ENV = {"gpu": "NVIDIA H200", "driver": "550.54", "torch": "2.8.0", "mig": False}
TIMES = (10.003, 10.05, 9.95, 10.02, 9.98, 10.04, 9.96, 10.01, 9.99, 10.006)


def result(step_ms: object = 10.0, env: dict | None = None, **metrics: object) -> dict:
    return {"schema": 1, "env": ENV if env is None else env, "metrics": {"step_ms_p50": step_ms, **metrics}}


def history(*times: object, **metrics: object) -> dict:
    return {"schema": 1, "results": [result(time, **metrics) for time in times]}


@pytest.fixture
def judged(perf: Callable[..., object], tmp_path: Path) -> Callable[..., object]:
    """judged(baseline, head, *options) with both sides as trees, or as the text of a file."""

    def call(baseline: object, head: object, *options: object) -> object:
        paths = []
        for name, tree in (("baseline", baseline), ("head", head)):
            path = tmp_path / f"{name}.json"
            path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
            paths += [f"--{name}", path]
        return perf("gate", *paths, *options)

    return call


CASES = [
    ("as before", history(*TIMES), result(10.0), 0, "PASS (within_limit)"),
    ("slower", history(*TIMES), result(10.4), 1, "FAIL (slower_than_history)"),
    ("faster", history(*TIMES), result(8.0), 0, "PASS (faster)"),
    ("one stored number", result(10.1), result(10.0), 4, "INCONCLUSIVE (single_baseline_number)"),
    ("one stored number, half the speed", result(10.0), result(20.0), 4, "INCONCLUSIVE (single_baseline_number)"),
    ("nine", history(*TIMES[:9]), result(10.0), 4, "INCONCLUSIVE (short_history)"),
    ("null", history(*TIMES), result(None), 3, "ERROR (not_measured)"),
    ("NaN", history(*TIMES), json.dumps(result(float("nan"))), 3, "ERROR (not_finite)"),
    ("zero", history(*TIMES), result(0.0), 3, "ERROR (not_positive)"),
    ("no metrics", history(*TIMES), {"schema": 1, "env": ENV, "metrics": {}}, 3, "ERROR (arm_failed)"),
    ("all null on both sides", history(None, None), result(None), 3, "ERROR (not_measured)"),
    ("renamed metric", history(*TIMES), {"schema": 1, "env": ENV, "metrics": {"step_p50_ms": 10.0}}, 3, "not_measured"),
    ("failed", history(*TIMES), {**result(10.0), "status": "oom"}, 3, "the point: arm_failed; head: oom"),
    ("another GPU", history(*TIMES), result(6.0, {**ENV, "gpu": "NVIDIA A100"}), 5, "NVIDIA H200 / NVIDIA A100"),
    ("unknown GPU", history(*TIMES), result(10.0, {}), 5, "gpu: NVIDIA H200 / unknown"),
    ("both unknown", result(10.1, {}), result(10.0, {}), 5, "gpu: unknown / unknown"),
    ("more syncs", history(*TIMES, num_syncs=1), result(num_syncs=2), 1, "FAIL (more)"),
]


@pytest.mark.parametrize(("baseline", "head", "code", "said"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_verdicts_and_exit_codes(judged, baseline, head, code, said):
    ended = judged(baseline, head)
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert ended.err.count("\n") == 1


def points(**statuses: object) -> dict:
    return {"schema": 1, "env": ENV, "points": {
        name: {"status": status, "metrics": {"step_ms_p50": 10.0} if status == "ok" else None}
        for name, status in statuses.items()
    }}  # fmt: skip


@pytest.mark.parametrize(("head", "options", "code", "said"), [
    (points(a="ok"), (), 3, "b: not_in_head"),
    (points(a="ok", b="oom"), (), 3, "b: arm_failed; head: oom"),
    (points(a="ok", c="ok"), ("--allow-new",), 3, "b: not_in_head"),
    (points(a="ok", b="ok", c="ok"), (), 5, "c: not_in_base"),
    (points(a="ok", b="ok", c="ok"), ("--allow-new",), 4, "single_baseline_number"),
    (points(c="ok"), ("--allow-new",), 5, "no_common_points"),
    (points(), (), 5, "no_common_points"),
])
def test_points_that_one_side_lacks(judged, head, options, code, said):
    ended = judged(points(a="ok", b="ok"), head, *options)
    assert (ended.code, said in ended.err) == (code, True), ended.err


@pytest.mark.parametrize(("head", "said"), [
    ("{\"schema\": 1, \"env\"", "is not whole JSON"),
    ("[]", "holds list"),
    ({"schema": 2}, "schema is 2"),
    ({"schema": 1, "env": ENV}, "neither of points and metrics"),
    ({"schema": 1, "results": []}, "results holds no list"),
    ({"schema": 1, "env": ENV, "points": {"*": {"metrics": {"a_ns": 1}}}}, "own word for all points; name the point"),
    (history(1.0, 2.0), "holds 2 results"),
    (result("10"), "step_ms_p50: is '10'"),
    (result(True), "step_ms_p50: is True"),
])
def test_unusable_files_are_refused_in_one_line(judged, head, said):
    ended = judged(history(*TIMES), head)
    assert (ended.code, said in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err
    assert "head.json" in ended.err


def test_a_comparison_across_machines_is_marked_everywhere(judged, tmp_path):
    options = ("--compare-anyway", "--junit", tmp_path / "j.xml", "--markdown", tmp_path / "m.md")
    ended = judged(history(*TIMES), result(10.0, {**ENV, "gpu": "NVIDIA A100"}), *options)
    assert (ended.code, ended.out) == (0, "")
    mark = "NOT THE SAME MACHINE (gpu: NVIDIA H200 / NVIDIA A100)"
    assert f"> {mark}" in (tmp_path / "m.md").read_text()
    assert mark in [node.get("value") for node in ElementTree.parse(tmp_path / "j.xml").iter("property")]


def test_junit_tells_a_regression_from_a_crash_and_from_what_is_undecided(judged, tmp_path):
    stored = {"schema": 1, "results": [
        {"schema": 1, "env": ENV, "points": {
            "slow<er": {"metrics": {"step_ms_p50": time}}, "same": {"metrics": {"step_ms_p50": time}},
            "gone": {"metrics": {"step_ms_p50": time}},
            **({"young": {"metrics": {"step_ms_p50": time}}} if index == 0 else {}),
        }} for index, time in enumerate(TIMES)
    ]}  # fmt: skip
    times = {"slow<er": 12.0, "same": 10.0, "young": 10.0}
    head = {"schema": 1, "env": ENV, "points": {name: {"metrics": {"step_ms_p50": t}} for name, t in times.items()}}
    ended = judged(stored, head, "--junit", tmp_path / "j.xml")
    assert ended.code == 1
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    suite = root.find("testsuite")
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1",
    }  # fmt: skip
    said = {case.get("name"): [node.tag for node in case] for case in suite.iter("testcase")}
    assert said == {
        "slow<er::step_ms_p50": ["failure"], "same::step_ms_p50": [], "gone::measurement": ["error"],
        "young::step_ms_p50": ["skipped"],
    }  # fmt: skip
    assert "+20.0 % (90 %: " in suite.find(".//failure").text
    lines = ended.out.splitlines()
    assert lines[0] == "# perf gate: FAIL"
    assert lines[2] == "1 FAIL, 1 ERROR, 0 INCOMPARABLE, 1 INCONCLUSIVE, 1 PASS"
    assert [line.split("**")[1] for line in lines if line.startswith("| **")] == [
        "FAIL", "ERROR", "INCONCLUSIVE", "PASS",
    ]  # fmt: skip


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared bug cases are not beside the checkout")
@pytest.mark.parametrize(("head", "code"), [("other_gpu", 5), ("gpu_unknown", 5), ("same_gpu_clock_off_by_1", 4)])
def test_a_baseline_of_other_hardware(perf, head, code):
    files = SHARED / "53"
    ended = perf("gate", "--baseline", files / "baseline.json", "--head", files / f"current_{head}.json")
    assert ended.code == code
    assert "NVIDIA H200" in ended.err or head != "other_gpu"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared bug cases are not beside the checkout")
def test_a_cut_result_of_a_sweep_is_refused(perf):
    results = SHARED / "55" / "results"
    ended = perf("gate", "--baseline", results / "batch=8.json", "--head", results / "batch=16.json")
    assert ended.code == 2


def test_a_sweep_of_ours_against_another_is_one_number(perf, tmp_path, here):
    spec = tmp_path / "small.yaml"
    spec.write_text(
        "workload: {generator: {num_requests: 4, prompt: {kind: fixed, value: 7}, output: {kind: fixed, value: 4}}}\n"
        "runner: {max_num_seqs: 4, max_num_batched_tokens: 64}\ndevice: sim\n"
    )
    for name in ("before", "sweep"):
        swept = perf("sweep", spec, "--out", tmp_path / name)
        assert swept.code == 0, swept.err
    ended = perf("gate", "--baseline", tmp_path / "before", "--head", tmp_path / "sweep")
    assert ended.code == 4, ended.err
    assert "::num_syncs |" in ended.out
    assert "equal; base 5, head 5" in ended.out
    assert "period_p50_ns" in ended.out
    # WHEN the point's result is gone THEN it is an error
    (found,) = (tmp_path / "sweep" / "points").glob("*/summary.json")
    found.unlink()
    ended = perf("gate", "--baseline", tmp_path / "before", "--head", tmp_path / "sweep")
    assert ended.code in (3, 5), ended.err


def test_a_folder_of_results_is_a_baseline(perf, tmp_path):
    folder, head = tmp_path / "hist", tmp_path / "head.json"
    folder.mkdir()
    for number, time in enumerate(TIMES):  # the names run against the time
        tree = {**result(time, num_syncs=number), "time": f"2026-01-{number + 1:02d}"}
        (folder / f"{90 - number}.json").write_text(json.dumps(tree))
    head.write_text(json.dumps(result(10.01, num_syncs=9)))
    ended = perf("gate", "--baseline", folder, "--head", head)
    assert ended.code == 0, ended.err
    assert "Against 10 stored results" in ended.out
    assert "equal; base 9, head 9" in ended.out  # the newest of them
    # WHEN the head lies in the folder THEN it would be compared with itself
    ended = perf("gate", "--baseline", folder, "--head", folder / "90.json")
    assert (ended.code, "90.json: is given twice" in ended.err, ended.err.count("\n")) == (2, True, 1)
    (tmp_path / "empty").mkdir()
    assert "holds no result: neither *.json nor" in perf("gate", "--baseline", tmp_path / "empty", "--head", head).err


def test_the_plan_is_strict_json(perf):
    ended = perf("gate", "plan", "--sd", "0.01", "--points", "24", "--format", "json")
    assert ended.code == 0
    assert json.loads(ended.out)["detectable"] == pytest.approx(0.0275, abs=1e-3)
    assert '"first_stage_s": 1778' in ended.out
    assert "1777.999" not in ended.out
    assert perf("gate", "plan", "--sd", "nan").code == 2
    assert perf("gate", "plan", "--sd", "0.01", "--launches", "1").code == 2
    assert perf("gate").code == 2


def test_the_plan_is_said_in_words(perf):
    out = " ".join(perf("gate", "plan", "--sd", "0.01", "--points", "24").out.split())
    assert "nothing below 2.00 % is called a regression, and a slowdown of 2.75 % is flagged 95 times of 100" in out
    assert "24 points: about 30 min, and up to 59 min" in out


@pytest.mark.parametrize("options", [(), ("--sd", "0.01", "--calibration", "aa.json")])
def test_a_plan_without_a_spread_names_what_to_give(perf, options):
    ended = perf("gate", "plan", *options)
    assert (ended.code, "give --sd FRACTION (0.01 for 1 %) or --calibration FILE" in ended.err) == (2, True)
    assert "None" not in ended.err


def test_on_a_terminal_the_verdict_is_plain_text(judged, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    ended = judged(result(10.1), result(10.0))
    assert "\\" not in ended.out
    assert "| " not in ended.out
    assert "the point" in ended.out
    flat = " ".join(ended.out.split())
    assert "single_baseline_number a single stored result shows no spread; store at least 10" in flat
    assert "step_ms_p50" in flat


def test_the_last_line_says_what_its_first_reason_means(judged):
    ended = judged(history(*TIMES[:9]), result(10.0))
    assert ended.err.endswith("(short_history: too few stored results; store at least 10)\n")


def test_help_tells_the_main_use_first(perf):
    text = " ".join(perf("gate", "--help").out.split())
    assert "Has it become slower? Two arms side by side (--base, --head), or a new result" in text
    assert "Has it become slower? Two arms side by side" in " ".join(perf("--help").out.split())
