"""Stored results that say less than they seem to: rates, copies, fields given twice, failed new points, parts of 0."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from .in_process import no_processes

ENV = {"gpu": "NVIDIA H200", "driver": "550.54"}
SPEC = (
    "workload: {generator: {num_requests: 4, prompt: {kind: fixed, value: 7}, output: {kind: fixed, value: 4}}}\n"
    "runner: {max_num_seqs: 4, max_num_batched_tokens: 64}\ndevice: sim\n"
)


def noisy(value, count=12):
    return [float(value * np.exp(0.004 * x)) for x in np.random.default_rng(5).standard_normal(count)]


def result(**metrics):
    return {"schema": 1, "env": ENV, "metrics": metrics}


def history(count=12, **metrics):
    columns = {name: noisy(value, count) for name, value in metrics.items()}
    return {"schema": 1, "results": [result(**{name: columns[name][at] for name in columns}) for at in range(count)]}


@pytest.fixture
def judged(perf, tmp_path):
    """judged(baseline, head, *options) → how the gate ended, with both sides as trees or texts."""

    def call(baseline, head, *options):
        paths = []
        for name, tree in (("baseline", baseline), ("head", head)):
            path = tmp_path / f"{name}.json"
            path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
            paths += [f"--{name}", path]
        return perf("gate", *paths, *options)

    return call


@pytest.mark.parametrize("metric", ["tokens_per_s", "requests_per_gpu_s", "hidden_p50_ns", "ns_per_token", "hit_share"])
def test_what_may_be_better_when_there_is_more_of_it_is_not_judged(judged, metric):
    stored = history(**{metric: 1000.0})
    ended = judged(stored, result(**{metric: 500.0}))
    assert (ended.code, "no gated metric" in ended.err) == (3, True), ended.err
    ended = judged(stored, result(**{metric: 500.0}), "--metric", metric)
    assert (ended.code, "more of it may be better" in ended.err) == (2, True), ended.err


@pytest.mark.parametrize(("metric", "slower"), [("table_copy_p50_ns", 1.1), ("device_p50_ns", 1.1)])
def test_device_times_are_judged_beside_the_period(judged, metric, slower):
    stored = history(period_p50_ns=1e6, **{metric: 3e5})
    assert judged(stored, result(**{"period_p50_ns": 1e6, metric: 3e5})).code == 0
    assert judged(stored, result(**{"period_p50_ns": 1e6, metric: 3e5 * slower})).code == 1


@pytest.mark.parametrize(("before", "now", "code"), [
    (5e4, 5e4, 0), (5e4, 9e5, 1), (0.0, 0.0, 0), (0.0, 3e5, 1), (5e4, None, 3), (5e4, -1.0, 3), (3e5, 0.0, 4),
    (5e4, float("nan"), 3),
])
def test_exposed_time_is_judged_as_a_share_of_the_step_and_may_be_0(judged, before, now, code):
    stored = history(period_p50_ns=1e6, exposed_p50_ns=before)
    ended = judged(stored, result(period_p50_ns=1e6, exposed_p50_ns=now))
    assert ended.code == code, ended.err


def test_a_result_counts_once(perf, judged, tmp_path):
    five = tmp_path / "five.json"
    five.write_text(json.dumps(history(5, period_p50_ns=1e6)))
    head = tmp_path / "new.json"
    head.write_text(json.dumps(result(period_p50_ns=1e6)))
    (tmp_path / "link.json").symlink_to(five)
    shutil.copy(five, tmp_path / "copy.json")
    for twice in (five, tmp_path / "link.json", tmp_path / "copy.json", head):
        ended = perf("gate", "--baseline", five, "--baseline", twice, "--head", head)
        assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
    assert perf("gate", "--baseline", five, "--head", head).code == 4
    stored = history(period_p50_ns=1e6)
    ended = judged(stored, stored["results"][3])
    assert (ended.code, "the same values as" in ended.err) == (2, True), ended.err
    # AND counts alone may well be equal
    assert judged({"schema": 1, "results": [result(num_syncs=1)] * 12}, result(num_syncs=1)).code == 0


@pytest.mark.parametrize("text", [
    '{"schema": 1, "env": %s, "metrics": {"period_p50_ns": 9000000, "period_p50_ns": 1000000}}',
    '{"schema": 1, "env": %s, "points": {"run": {"status": "oom"}, "run": {"metrics": {"period_p50_ns": 1000000}}}}',
    '{"schema": 1, "env": {"gpu": "A100"}, "env": %s, "metrics": {"period_p50_ns": 1000000}}',
    '{"schema": true, "env": %s, "metrics": {"period_p50_ns": 1000000}}',
    '{"schema": 1.0, "env": %s, "metrics": {"period_p50_ns": 1000000}}',
    '{"schema": 1, "env": %s, "metrics": {"period_p50_ns": 1' + 400 * "0" + "}}",
    "[" * 100_000 + "%.0s",
])
def test_a_field_given_twice_and_a_schema_that_is_no_number_are_refused(judged, perf, tmp_path, text):
    text = text % json.dumps(ENV)
    ended = judged(history(period_p50_ns=1e6), text)
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
    pytest.importorskip("ruptures")
    assert perf("history", tmp_path / "head.json").code == 2


@pytest.mark.parametrize("new", [
    {"status": "failed", "reason": "oom"}, {"metrics": {}}, {"metrics": {"period_p50_ns": None}},
    {"metrics": {"period_p50_ns": 0}}, {"metrics": {"period_p50_ns": float("nan")}}, {"metrics": {"tokens": 5}},
])
def test_a_new_point_that_failed_is_an_error_even_where_new_ones_are_allowed(judged, new):
    points = {"run": {"metrics": {"period_p50_ns": 1e6}}, "b": new}
    head = {"schema": 1, "env": ENV, "points": points}
    stored = history(period_p50_ns=1e6)
    for options in ((), ("--allow-new",)):
        assert judged(stored, head, *options).code == 3
    points["b"] = {"metrics": {"period_p50_ns": 5e5}}
    assert judged(stored, head, "--allow-new").code == 0


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A sweep of two points, made once; copied before it is spoiled."""
    from stepscope.cli.main import main

    folder = tmp_path_factory.mktemp("swept")
    (folder / "small.yaml").write_text(SPEC)
    out = folder / "sweep"
    with no_processes():
        assert main(["sweep", str(folder / "small.yaml"), "--param", "runner.commit_order=first,last",
                     "--out", str(out), "--progress", "plain"]) == 0  # fmt: skip
    return out


def edited(change):
    def spoil(points):
        path = points[0] / "summary.json"
        tree = json.loads(path.read_text())
        change(tree)
        path.write_text(json.dumps(tree))

    return spoil


SPOILT = {
    "another version": edited(lambda tree: tree.update(version=99)),
    "other parameters": edited(lambda tree: tree["parameters"]["runner"].update(max_num_seqs=8)),
    "no parameters": edited(lambda tree: tree.pop("parameters")),
    "of another point": lambda points: shutil.copy(points[1] / "summary.json", points[0] / "summary.json"),
    "another launch": edited(lambda tree: tree.update(repeat=1)),
    "a status of its own": edited(lambda tree: tree.update(status="fine")),
    "cut": lambda points: (points[0] / "summary.json").write_text("{}"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_point_of_a_sweep_that_is_not_the_plans_failed(sweep, tmp_path, kind):
    from stepscope.experiments.gate.results import read_results

    shutil.copytree(sweep, tmp_path / "head")
    whole = read_results(tmp_path / "head")[0]
    assert not whole.failures
    points = sorted((tmp_path / "head" / "points").iterdir())
    SPOILT[kind](points)
    (spoilt,) = read_results(tmp_path / "head")
    assert list(spoilt.failures) == [points[0].name]
    assert {point for point, _ in spoilt.values} == {points[1].name}


def test_a_sweep_of_which_one_point_has_no_machine_is_of_none(sweep, tmp_path):
    from stepscope.experiments.gate.results import read_results

    shutil.copytree(sweep, tmp_path / "head")
    assert read_results(tmp_path / "head")[0].machine["gpu"].startswith("none (sim")
    (recording,) = sorted((tmp_path / "head" / "points").glob("*first*/recording/recording.json"))
    recording.unlink()
    assert read_results(tmp_path / "head")[0].machine == {}


@pytest.mark.parametrize(("newest", "code"), [
    ({"metrics": {"period_p50_ns": 0}}, 3), ({"metrics": {"period_p50_ns": None}}, 3),
    ({"status": "failed", "reason": "oom"}, 3), ({"metrics": {"period_p50_ns": 1.0001e6}}, 0),
])
@pytest.mark.parametrize("env", [ENV, {}, {"gpu": "NVIDIA H200", "driver": "560"}])
def test_a_history_whose_newest_result_was_not_measured_is_no_good_news(perf, tmp_path, newest, code, env):
    pytest.importorskip("ruptures")
    tree = history(period_p50_ns=1e6)
    tree["results"] += [{"schema": 1, "env": env, "points": {"run": newest}}]
    (tmp_path / "h.json").write_text(json.dumps(tree))
    expected = code if env else 3  # a result of an unknown machine is compared with nothing
    assert perf("history", tmp_path / "h.json", "--fail-on-slower").code == expected
    assert perf("history", tmp_path / "h.json").code == 0


def test_a_history_counts_a_result_once_and_judges_no_rate(perf, tmp_path):
    pytest.importorskip("ruptures")
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for path in (first, second):
        path.write_text(json.dumps(history(4, period_p50_ns=1e6)))
    for paths in ((first, first), (first, second)):
        assert perf("history", *paths).code == 2
    first.write_text(json.dumps(history(tokens_per_s=1e3)))
    assert perf("history", first, "--metric", "tokens_per_s").code == 2
    assert perf("history", first).code == 3


@pytest.mark.parametrize("known", [{}, {"steps_in_flight": 2}])  # a gate's result, a summary
def test_pipelined_steps_are_judged_by_their_pace(judged, known):
    # GIVEN stored paces; the median of single periods lies where the rhythm of the steps happens to put it
    stored = history(period_p50_ns=8e5, pace_ns=1e6)
    for one in stored["results"]:
        one["metrics"] |= known
    assert judged(stored, result(period_p50_ns=9e5, pace_ns=1e6, **known)).code == 0
    assert judged(stored, result(period_p50_ns=8e5, pace_ns=1.1e6, **known)).code == 1
    assert judged(stored, result(period_p50_ns=8e5, pace_ns=None, **known)).code == 3  # lost: never a pass


def test_steps_that_wait_for_their_tokens_are_judged_by_their_period(judged):
    stored = history(period_p50_ns=1e6)
    assert judged(stored, result(period_p50_ns=1e6, pace_ns=3e6, steps_in_flight=1)).code == 0
    assert judged(stored, result(period_p50_ns=1.1e6, pace_ns=1e6, steps_in_flight=1)).code == 1


def test_stored_results_from_before_the_pace_are_not_comparable(judged):
    ended = judged(history(period_p50_ns=1e6), result(period_p50_ns=1e6, pace_ns=1e6, steps_in_flight=2))
    assert (ended.code, "no pace of pipelined steps; store new ones" in ended.out) == (5, True), ended.out


def test_a_copy_in_a_folder_is_told_by_its_file(perf, tmp_path):
    # GIVEN twelve results in a folder, the last one a copy of the first
    stored, head = tmp_path / "stored", tmp_path / "head.json"
    stored.mkdir()
    for at, value in enumerate(noisy(1e6)):
        tree = {**result(period_p50_ns=value), "time": f"2026-11-{at + 1:02}T00:00:00Z"}
        (stored / f"{at:02}.json").write_text(json.dumps(tree))
    copy = {**json.loads((stored / "00.json").read_text()), "time": "2026-11-30T00:00:00Z"}
    (stored / "copy.json").write_text(json.dumps(copy))
    head.write_text(json.dumps(result(period_p50_ns=1e6)))
    ended = perf("gate", "--baseline", stored, "--head", head)
    assert ended.code == 2
    assert f"{stored / 'copy.json'}: holds the same values as {stored / '00.json'};" in ended.err
