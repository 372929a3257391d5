"""Any names and any numbers: every format stays readable by others, keeps points apart, and lets nothing pass."""

from __future__ import annotations

import dataclasses
import json

from hypothesis import given, settings
from stepscope.analysis.gate.matching import ALL
from stepscope.analysis.gate.verdict import Verdict
from stepscope.reports.gate.annotations import render_annotations
from stepscope.reports.gate.bmf import render_bmf
from stepscope.reports.gate.characters import distinct, readable, shortened
from stepscope.reports.gate.formats import FORMATS
from stepscope.reports.gate.gab import render_gab
from stepscope.reports.gate.junit import render_junit
from stepscope.reports.gate.openmetrics import render_openmetrics, render_prometheus
from stepscope.reports.gate.order import worst_first
from stepscope.reports.gate.page import gate_document
from stepscope.reports.gate.privacy import Privacy, publishable
from stepscope.reports.gate.pytorch import render_pytorch
from stepscope.reports.gate.summary import render_summary
from stepscope.reports.gate.values import values_of
from stepscope.reports.gate.words import name_of, sentence
from stepscope.reports.html import figures_json, render_html

from .made import TEXTS, result, results, verdict
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

few = settings(max_examples=60, deadline=None, derandomize=True)


def shown(result):
    return publishable(result, Privacy())


def strict(text):
    text.encode()  # no lone surrogate is left

    def refuse(word):
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


@few
@given(results())
def test_junit_keeps_every_verdict_and_its_name(given_result):
    result = shown(given_result)
    cases = junit_cases(render_junit(result))
    assert [tag for _, tag, _ in cases] == [ELEMENTS[point.verdict] for point in result.suite.points]
    for (name, tag, _), point in zip(cases, result.suite.points, strict=True):
        metric = "measurement" if point.metric == ALL else point.metric
        assert name == ("all points" if point.point == ALL else f"{point.point}::{metric}")
        assert (tag is None) == (point.verdict is Verdict.PASS)


@few
@given(results())
def test_number_formats_are_strict_json_of_their_schema(given_result):
    result = shown(given_result)
    values = list(values_of(result))
    for text, schema in ((render_bmf(result), BMF), (render_gab(result), GAB), (render_pytorch(result), PYTORCH)):
        tree = strict(text)
        validate(tree, schema)
        numbers = [one for below in tree.values() for one in below] if isinstance(tree, dict) else tree
        assert len(numbers) == len(values)
    names = [entry["name"] for entry in strict(render_gab(result))]
    assert names == [f"{value.point} {value.metric}" for value in values]
    strict(FORMATS["json"].write(result))


@few
@given(results())
def test_samples_keep_their_labels_and_values(given_result):
    result = shown(given_result)
    samples = openmetrics(render_openmetrics(result))
    assert samples == prometheus(render_prometheus(result))
    values = list(values_of(result, ("base", "head")))
    medians = [dict(labels) for _, labels in samples if dict(labels).get("stat") == "median"]
    told = {(labels["point"], labels["arm"]) for labels in medians}
    assert told == {(value.point, value.arm) for value in values}
    assert len(medians) == len(values)


@few
@given(results())
def test_commands_and_tables_hold_whatever_names_there_are(given_result):
    result = shown(given_result)
    found = commands(render_annotations(result))
    assert 1 <= len(found) <= 20
    assert found[0][1] == f"perf gate: {result.suite.verdict.value}"
    wrong = [point for point in worst_first(result.suite) if point.verdict is not Verdict.PASS]
    assert [(title, text) for _, title, text in found[1:]] == [
        (f"{point.verdict.value} {shortened(name_of(point), 120)}", shortened(sentence(point), 1000)) for point in wrong
    ]
    text = render_summary(result)
    rows = [row for row in table_rows(text) if row[0] in Verdict.__members__]
    assert len(rows) == len(result.suite.points)
    assert {len(row) for row in rows} <= {5}
    names = {shortened("::".join(part for part in (p.point, p.metric) if part != ALL) or "all", 160)
             for p in result.suite.points}  # fmt: skip
    assert {row[1] for row in rows} == names


@few
@given(results())
def test_pages_carry_no_markup_of_a_name(given_result):
    document = gate_document(shown(given_result))
    plain = dataclasses.replace(document, sections=tuple(s for s in document.sections if s.id != "effects"))
    page = render_html(plain)  # without Plotly's bundle, which takes its time
    page.encode()
    body = page[page.index("<body>") : page.index("<script>")]
    assert "<![CDATA[" not in body
    assert "</script" not in body
    assert figures_json(document.charts).count("</script") == 0


@few
@given(TEXTS)
def test_readable_is_one_printing_line_and_settles(text):
    once = readable(text)
    assert once.isprintable()
    assert readable(once) == once
    assert len(shortened(once, 50)) <= 50


def test_names_that_would_become_one_stay_apart():
    assert distinct(["a\n", "a\\n", "b"]) == {"a\\n": "a\\n", "a\n": "a\\n (87428fc5)", "b": "b"}


def test_no_home_no_user_no_variable_and_no_secret_is_published():
    environ = {"HOME": "/data/people/alice", "USER": "alice", "HF_TOKEN": "hf_abcdefgh", "MY_KEY": "abc", "CI": "true"}
    privacy = Privacy.of(environ)
    cases = {
        "checkout:/data/people/alice/engine": "checkout:~/engine",
        "python:/home/bob/venv/bin/python": "python:~/venv/bin/python",
        "/Users/carol/x and C:\\Users\\dave\\y": "~/x and ~\\y",
        "/root/engine, not /rooted": "~/engine, not /rooted",
        "/mnt/alice/x is not alicex": "/mnt/USER/x is not alicex",
        "/data/people/alicent/x": "/data/people/alicent/x",
        "died: HF_TOKEN=hf_abcdefgh DB_PASSWORD='a b' bs=32": "died: HF_TOKEN=*** DB_PASSWORD=*** bs=32",
        "401 for hf_abcdefgh": "401 for ***",
        "MY_KEY is abc": "MY_KEY is abc",
        "a\x1b[31mb": "a\\x1b[31mb",
    }  # fmt: skip
    assert {text: privacy.words(text) for text in cases} == cases


SECRET = "hf_hunter2secret"
PATH = "/srv/homes/qualice/engine"


def test_a_secret_in_every_text_of_a_result_is_in_no_output():
    dirty = f"{PATH}: token {SECRET}, DB_URL=postgres://{SECRET}"
    whole = result(
        verdict(f"{PATH}/{SECRET}", detail=dirty), verdict("b", word=Verdict.ERROR, detail=dirty),
        verdict("c", metric=f"{SECRET}_ns"), base=dirty, head=dirty, notes=(dirty,),
        machine={"gpu": dirty, "engine": PATH},
    )  # fmt: skip
    clean = publishable(whole, Privacy.of({"HOME": "/srv/homes/qualice", "USER": "qualice", "API_TOKEN": SECRET}))
    for name, format_ in FORMATS.items():
        text = format_.write(clean)
        assert SECRET not in text, name
        assert "qualice" not in text, name
        assert "postgres" not in text, name
    assert len({point.point for point in clean.suite.points}) == 3
    assert set(clean.levels) <= {(p.point, p.metric) for p in clean.suite.points}


def test_a_metric_called_as_the_gates_own_families_are_is_a_family_of_its_own():
    """GIVEN metrics whose families would be the gate's, WHEN exposed, THEN nothing clashes and no sample is lost."""
    taken = ["gate_run", "gate_run_info", "gate_exit_code", "gate_points", "gate_effect_share", "gate_ns"]
    given = result(*(verdict("p", metric) for metric in taken))

    samples = openmetrics(render_openmetrics(given))

    assert {name for name, labels in samples if "stat" not in dict(labels)} == {
        "perf_gate_run_info", "perf_gate_exit_code", "perf_gate_points", "perf_gate_effect_ratio",
    }  # fmt: skip
    assert len({name for name, labels in samples if "stat" in dict(labels)}) == len(taken)
    assert samples == prometheus(render_prometheus(given))


def test_half_a_character_in_a_name_is_an_escape_in_json():
    """GIVEN a folder whose bytes are no UTF-8, WHEN written as JSON, THEN a file can hold it and a reader has it."""
    text = FORMATS["json"].write(result(base="checkout:\udcff"))

    assert json.loads(text.encode())["base"] == "checkout:\udcff"
