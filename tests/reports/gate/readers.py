"""What others wrote to read these formats with, and what a reader of ours makes of them."""

from __future__ import annotations

import re

import pytest
from stepscope.analysis.gate.verdict import Verdict

ELEMENTS = {
    Verdict.FAIL: "failure", Verdict.ERROR: "error", Verdict.INCOMPARABLE: "skipped", Verdict.INCONCLUSIVE: "skipped",
    Verdict.PASS: None,
}  # fmt: skip
BMF = {
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
    "propertyNames": {"minLength": 1, "maxLength": 1024},
    "additionalProperties": {
        "type": "object", "minProperties": 1, "propertyNames": {"minLength": 1, "maxLength": 64},
        "additionalProperties": {
            "type": "object", "required": ["value"], "additionalProperties": False,
            "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
        },
    },
}  # fmt: skip
GAB = {
    "type": "array",
    "items": {
        "type": "object", "required": ["name", "value", "unit"], "additionalProperties": False,
        "properties": {
            "value": {"type": "number"}, **{name: {"type": "string"} for name in ("name", "unit", "range", "extra")},
        },
    },
}  # fmt: skip
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
PYTORCH = {
    "type": "array",
    "items": {
        "type": "object", "required": ["benchmark", "model", "metric"], "additionalProperties": False,
        "properties": {
            "benchmark": {
                "type": "object", "required": ["name", "mode", "dtype", "extra_info"], "additionalProperties": False,
                "properties": {"name": {"type": "string"}, "mode": {"enum": ["training", "inference"]},
                               "dtype": {"type": "string"}, "extra_info": _TEXTS},
            },
            "model": {
                "type": "object", "required": ["name", "type", "backend", "origins", "extra_info"],
                "additionalProperties": False,
                "properties": {"name": {"type": "string"}, "type": {"type": "string"}, "backend": {"type": "string"},
                               "origins": {"type": "array", "items": {"type": "string"}}, "extra_info": _TEXTS},
            },
            "metric": {
                "type": "object", "required": ["name", "benchmark_values"], "additionalProperties": False,
                "properties": {"name": {"type": "string"}, "target_value": {"type": "number"}, "extra_info": _TEXTS,
                               "benchmark_values": {"type": "array", "minItems": 1, "items": {"type": "number"}}},
            },
        },
    },
}  # fmt: skip
"""Bencher's draft-07 schema, the action's own check, and the data base's table, each as its project describes it."""


def validate(tree, schema):
    pytest.importorskip("jsonschema").Draft7Validator(schema).validate(tree)


def junit_cases(text):
    """[(name, tag of its verdict, text)] by junitparser."""
    junitparser = pytest.importorskip("junitparser")
    root = junitparser.JUnitXml.fromstring(text.encode())
    found = []
    for suite in root:
        for case in suite:
            results = list(case.result)
            assert len(results) <= 1
            tag = results[0]._tag if results else None
            found.append((case.name, tag, results[0].text if results else None))
        assert (suite.tests, suite.failures, suite.errors, suite.skipped) == tuple(
            [len(found), *(sum(tag == kind for _, tag, _ in found) for kind in ("failure", "error", "skipped"))]
        )
    assert (root.tests, root.failures, root.errors) == (suite.tests, suite.failures, suite.errors)
    return found


def openmetrics(text):
    """{(name of the sample, labels): value} by prometheus_client's parser of OpenMetrics."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    return _samples(parser.text_string_to_metric_families(text))


def prometheus(text):
    """The same by its parser of the older format."""
    parser = pytest.importorskip("prometheus_client.parser")
    return _samples(parser.text_string_to_metric_families(text))


def _samples(families):
    found = {}
    for family in families:
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def commands(text):
    """[(kind, title, message)] as the runner of GitHub Actions reads its log."""
    found = []
    for line in text.splitlines():
        matched = re.fullmatch(r"::(\w+) title=([^:,]*)::(.*)", line)
        assert matched, line
        kind, title, message = matched.groups()
        for escape, char in (("%3A", ":"), ("%2C", ",")):
            title = title.replace(escape, char)
        for escape, char in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            title, message = title.replace(escape, char), message.replace(escape, char)
        found.append((kind, title, message))
    return found


def table_rows(text):
    """The cells' texts of every table row, by markdown-it; code spans without their tags."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    rows = []
    for token in parser.parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows and token.level > 2:
            children = token.children or []
            assert not [child for child in children if child.type in ("link_open", "image", "em_open", "code_inline")]
            tags = {child.content for child in children if child.type == "html_inline"}
            assert tags <= {"<code>", "</code>"}, tags
            rows[-1].append("".join(child.content for child in children if child.type in ("text", "text_special")))
    return rows
