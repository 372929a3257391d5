"""Each format read back by a reader that others wrote: what a verdict, a value and a missing one become there."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from stepscope.analysis.gate.matching import ALL
from stepscope.analysis.gate.result import Level, Levels
from stepscope.analysis.gate.suite import Geomean
from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.reports.gate.annotations import command, render_annotations
from stepscope.reports.gate.bmf import render_bmf
from stepscope.reports.gate.formats import FORMATS
from stepscope.reports.gate.gab import render_gab
from stepscope.reports.gate.junit import render_junit
from stepscope.reports.gate.openmetrics import render_openmetrics, render_prometheus
from stepscope.reports.gate.pytorch import render_pytorch
from stepscope.reports.gate.summary import render_summary

from .made import every_kind, level, result, verdict
from .readers import (
    BMF,
    ELEMENTS,
    GAB,
    PYTORCH,
    commands,
    junit_cases,
    openmetrics,
    prometheus,
    table_rows,
    validate,
)

SHARED = Path(__file__).resolve().parents[4] / "shared" / "reference" / "formats"
DECODE = "decode/bs=32,kv=8192"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the reference files are not beside the checkout")


def test_junit_says_what_each_verdict_is():
    cases = junit_cases(render_junit(every_kind()))
    assert [(name, tag) for name, tag, _ in cases] == [
        (f"{DECODE}::period_p50_ns", "failure"), ("prefill/tok=8192::period_p50_ns", None),
        ('a|b <c> & "d" `e` %41\\nnew, line: x::period_p50_ns', "skipped"), ("decode/bs=512::measurement", "error"),
        ("new/one::measurement", "skipped"), (f"{DECODE}::num_syncs", None), ("all points", None),
    ]  # fmt: skip
    assert cases[0][2] == (
        "confirmed_on_fresh_data; +4.80 % (90 %: +4.40 % to +5.20 %), n = 5; base 1.2e+07, head 1.2576e+07"
    )
    assert cases[3][2] == "arm_failed; head: CUDA out of memory"


def test_junit_keeps_a_point_called_all_points_apart_from_all_of_them():
    # GIVEN two points, one of a name that nobody should choose, and both together
    together = Geomean(0.011, 0.009, 0.013, 2, Verdict.PASS, Reason.WITHIN_LIMIT)
    text = render_junit(result(verdict("all points"), verdict("b"), geomeans={"period_p50_ns": together}))
    cases = ElementTree.fromstring(text.encode()).iter("testcase")
    # THEN each case has a name of its own
    assert [(case.get("classname"), case.get("name")) for case in cases] == [
        ("perf.period_p50_ns", "all points::period_p50_ns"), ("perf.period_p50_ns", "b::period_p50_ns"),
        ("perf.period_p50_ns", "all points"),
    ]  # fmt: skip


def test_junit_without_a_point_is_an_error():
    empty = result(verdict(ALL, ALL, Verdict.ERROR))
    assert [tag for _, tag, _ in junit_cases(render_junit(empty))] == ["error"]


def test_junit_holds_only_what_the_schema_of_junit_allows():
    # Found by trying: properties below a test case, and attributes of the file, are refused by strict readers.
    root = ElementTree.fromstring(render_junit(every_kind()).encode())
    for case in root.iter("testcase"):
        assert set(case.attrib) == {"classname", "name"}
        assert {node.tag for node in case} <= {"failure", "error", "skipped"}
    assert {node.tag for node in root} == {"testsuite"}
    assert root.find("testsuite")[0].tag == "properties"


@needs_shared
def test_the_reference_files_pass_the_same_readers():
    validate(json.loads((SHARED / "bmf.json").read_text()), BMF)
    validate(json.loads((SHARED / "gab.json").read_text()), GAB)
    tags = [tag for _, tag, _ in junit_cases((SHARED / "junit.xml").read_text())]
    assert tags == ["failure", None, "skipped"]
    assert openmetrics((SHARED / "metrics.om").read_text())
    record = json.loads((SHARED / "pytorch_v3.json").read_text())[0]
    ours = json.loads(render_pytorch(every_kind()))[0]
    assert {key: set(record[key]) for key in record} == {key: set(ours[key]) for key in ours}


def test_bmf_has_the_values_of_the_head_with_their_unit_in_the_measure():
    tree = json.loads(render_bmf(every_kind()))
    validate(tree, BMF)
    assert tree[DECODE] == {
        "period_p50_ns": {"value": 12576000.0, "lower_value": 12576000.0 * 0.99, "upper_value": 12576000.0 * 1.01},
        "num_syncs": {"value": 12e6, "lower_value": 12e6 * 0.99, "upper_value": 12e6 * 1.01},
    }  # fmt: skip
    assert "decode/bs=512" not in tree


def test_names_that_bencher_would_not_take_or_not_tell_apart_stay_apart():
    points = ["p" * 2000 + "a", "p" * 2000 + "b", "", " ", "  ", "q", "q ", " q"]
    tree = json.loads(render_bmf(result(*(verdict(point) for point in points))))
    validate(tree, BMF)
    assert len(tree) == len(points)
    metrics = ["x_" * 100, "x_" * 101, "", " ", "a_b_ns", "a-b_ns"]
    tree = json.loads(render_bmf(result(*(verdict(metric=metric) for metric in metrics))))
    validate(tree, BMF)
    assert len(tree[DECODE]) == len(metrics)


def test_github_action_benchmark_takes_the_array():
    entries = json.loads(render_gab(every_kind()))
    validate(entries, GAB)
    assert entries[0] == {
        "name": f"{DECODE} period_p50_ns", "unit": "ns", "value": 12576000.0, "range": "± 125760",
        "extra": "FAIL: confirmed_on_fresh_data\nn=5\ngpu=NVIDIA H200",
    }  # fmt: skip
    assert len({entry["name"] for entry in entries}) == len(entries) == 4


def test_openmetrics_has_base_units_escaped_labels_and_an_end():
    text = render_openmetrics(every_kind())
    assert text.endswith("\n# EOF\n")
    samples = openmetrics(text)
    head = (("arm", "head"), ("point", DECODE), ("stat", "median"))
    assert samples["perf_period_p50_seconds", head] == 0.012576
    assert samples["perf_num_syncs", head] == 12e6
    assert samples["perf_gate_points", (("verdict", "FAIL"),)] == 1
    assert samples["perf_gate_exit_code", ()] == 1
    run = next(dict(labels) for name, labels in samples if name == "perf_gate_run_info")
    assert run == {"verdict": "FAIL", "kind": "paired", "base": "checkout:base", "head": "checkout:head",
                   "gpu": "NVIDIA H200"}  # fmt: skip
    assert "# UNIT perf_period_p50_seconds seconds\n" in text


def test_prometheus_text_has_the_same_samples():
    assert prometheus(render_prometheus(every_kind())) == openmetrics(render_openmetrics(every_kind()))


def test_metrics_whose_names_become_one_stay_two_families():
    points = [verdict(metric=metric) for metric in ("a-b_ns", "a b_ns", "a_b_ns", "a_b_ms")]
    samples = openmetrics(render_openmetrics(result(*points)))
    names = {name for name, labels in samples if dict(labels).get("stat") == "median"}
    assert len(names) == 4
    assert all(name.endswith("_seconds") for name in names)


def test_pytorch_records_have_a_value_for_each_launch_and_the_base_as_target():
    records = json.loads(render_pytorch(every_kind()))
    validate(records, PYTORCH)
    metric = records[0]["metric"]
    assert metric["name"] == "period_p50_ns"
    assert metric["benchmark_values"] == [12576000.0 * 0.99, 12576000.0, 12576000.0 * 1.01]
    assert metric["target_value"] == 12e6
    alone = result(levels={(DECODE, "period_p50_ns"): Levels(None, level(1e6))})
    assert "target_value" not in json.loads(render_pytorch(alone))[0]["metric"]


NUMBERS = ("bmf", "gab", "pytorch-v3", "openmetrics", "prometheus")
BROKEN = {
    "zero": Levels(None, Level(0.0, 0.0, 0.0)), "NaN": Levels(None, Level(float("nan"), 1.0, 1.0)),
    "infinite": Levels(None, Level(1.0, 1.0, float("inf"))), "negative": Levels(None, Level(-1.0, -1.0, -1.0)),
    "missing": Levels(level(1e6), None),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("kind", BROKEN)
def test_what_was_not_measured_leaves_no_number_of_the_head(kind, name):
    text = FORMATS[name].write(result(levels={(DECODE, "period_p50_ns"): BROKEN[kind]}))
    if name in ("openmetrics", "prometheus"):
        assert 'arm="head"' not in text
    else:
        assert not json.loads(text)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_point_that_erred_leaves_no_number_even_where_it_has_one(name):
    levels = {(DECODE, metric): Levels(level(1e6), level(1e6)) for metric in ("period_p50_ns", "num_syncs")}
    whole = result(verdict(metric=ALL, word=Verdict.ERROR), levels=levels)
    text = FORMATS[name].write(whole)
    assert "period" not in text
    assert "syncs" not in text


def test_a_count_of_zero_is_a_value():
    zero = result(verdict(metric="num_syncs"), levels={(DECODE, "num_syncs"): Levels(None, Level(0, 0, 0))})
    assert json.loads(render_bmf(zero))[DECODE]["num_syncs"]["value"] == 0


@pytest.mark.parametrize("word", list(Verdict))
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_write_every_verdict(name, word):
    text = FORMATS[name].write(result(verdict(word=word)))
    assert text.endswith(("\n", "</html>"))
    if name == "junit":
        assert [tag for _, tag, _ in junit_cases(text)] == [ELEMENTS[word]]


def test_annotations_are_undone_by_the_runner_and_stay_within_its_limits():
    found = commands(render_annotations(every_kind()))
    told = "1 FAIL, 1 ERROR, 1 INCOMPARABLE, 1 INCONCLUSIVE, 2 PASS (confirmed_on_fresh_data)"
    assert found[0] == ("error", "perf gate: FAIL", told)
    assert [kind for kind, _, _ in found] == ["error"] * 3 + ["warning"] * 2
    assert found[2][1:] == ("ERROR decode/bs=512", "arm_failed; head: CUDA out of memory")
    assert 'INCONCLUSIVE a|b <c> & "d" `e` %41\\nnew, line: x::period_p50_ns' in [title for _, title, _ in found]
    many = commands(render_annotations(result(*(verdict(f"p{n}", word=Verdict.FAIL) for n in range(100)))))
    assert len(many) == 10
    assert many[-1][2] == "92 more of this kind, see the job summary"
    warnings = commands(render_annotations(result(verdict("bad", word=Verdict.FAIL), *(
        verdict(f"p{n}", word=Verdict.INCONCLUSIVE) for n in range(10)
    ))))  # fmt: skip
    assert [kind for kind, _, _ in warnings].count("warning") == 10
    for title, text in (("a:b,c%d", "50%: x, y"), ("%0A%3A%25", "%0A and %25")):
        assert commands(command("error", title, text) + "\n") == [("error", title, text)]


def test_a_summary_of_ten_thousand_points_is_cut_between_rows_and_says_so():
    bad = [verdict(f"bad/{n}", word=Verdict.FAIL, effect=0.05 + n / 1e4) for n in range(50)]
    good = [verdict("x" * 120 + str(n)) for n in range(9950)]
    text = render_summary(result(*good, *bad))
    assert 900_000 < len(text.encode()) <= 1_000_000
    lines = [line for line in text.splitlines() if line.startswith("| **")]
    assert {line.count("|") for line in lines} == {6}
    assert [line[:10] for line in lines[:51]] == ["| **FAIL**"] * 50 + ["| **PASS**"]
    assert f"**{10_000 - len(lines)} of 10000 rows are left out here**" in text


def test_a_small_summary_still_has_whole_rows_and_the_worst_of_them():
    bad = [verdict(f"bad/{n}", word=Verdict.FAIL, effect=0.05 + n / 1e4) for n in range(50)]
    text = render_summary(result(verdict("good"), *bad), 4000)
    assert len(text.encode()) <= 4000
    rows = [row for row in table_rows(text) if row[0] == "FAIL"]
    assert [row[1] for row in rows] == [f"bad/{n}::period_p50_ns" for n in range(49, 49 - len(rows), -1)]
    assert 0 < len(rows) < 50
    assert f"**{51 - len(rows)} of 51 rows are left out here**" in text
    small = render_summary(every_kind(), 30)
    assert small == "## perf gate: FAIL\n"
    assert render_summary(every_kind(), 5) == ""


def test_a_summary_shows_names_as_they_are():
    rows = table_rows(render_summary(every_kind()))
    assert 'a|b <c> & "d" `e` %41\\nnew, line: x::period_p50_ns' in [row[1] for row in rows if len(row) == 5]
