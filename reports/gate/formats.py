"""Every format that a gate's result is written in, by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...analysis.gate.result import GateResult
from ..html import render_html
from .annotations import render_annotations
from .bmf import render_bmf
from .gab import render_gab
from .junit import render_junit
from .markdown import render_gate
from .openmetrics import render_openmetrics, render_prometheus
from .page import gate_document
from .pytorch import render_pytorch
from .result_json import render_result
from .summary import render_summary
from .terminal import render_terminal

Writer = Callable[[GateResult], str]


@dataclass(frozen=True, slots=True)
class Format:
    """`needs_file`: the format has no place of its own to go to."""

    write: Writer
    help: str
    needs_file: bool = True


FORMATS: Mapping[str, Format] = {
    "json": Format(render_result, "everything, for machines (schema 1)"),
    "text": Format(render_terminal, "plain text, for a terminal", False),
    "markdown": Format(
        lambda result: render_gate(result.suite, result.notes, result.beside), "a table, the worst first"
    ),
    "html": Format(lambda result: render_html(gate_document(result)), "one self-contained page"),
    "junit": Format(render_junit, "JUnit XML: regression = failure, crash = error, undecided = skipped"),
    "github-summary": Format(render_summary, "a job summary, below 1 MB; also appended to $GITHUB_STEP_SUMMARY", False),
    "annotations": Format(render_annotations, "workflow commands of GitHub Actions, on stdout", False),
    "bmf": Format(render_bmf, "Bencher Metric Format"),
    "gab": Format(render_gab, "github-action-benchmark, customSmallerIsBetter"),
    "openmetrics": Format(render_openmetrics, "OpenMetrics"),
    "prometheus": Format(render_prometheus, "Prometheus text, for the textfile collector"),
    "pytorch-v3": Format(render_pytorch, "PyTorch's benchmark data base, version 3"),
}
