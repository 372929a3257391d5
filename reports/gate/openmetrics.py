"""The gate's figures as OpenMetrics (for Prometheus and what reads its format), or as Prometheus' older text.

Times are seconds, shares ratios; a unit ends its family's name. Nothing carries a time: the collector's counts.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...analysis.gate.result import GateResult
from ...analysis.gate.verdict import Verdict
from .characters import readable
from .values import Value, values_of

_UNITS: dict[str, tuple[str, float]] = {
    "ns": ("seconds", 1e9), "us": ("seconds", 1e6), "ms": ("seconds", 1e3), "s": ("seconds", 1.0),
    "bytes": ("bytes", 1.0), "1": ("ratio", 1.0), "count": ("", 1.0),
}  # fmt: skip
"""Unit of a metric → OpenMetrics' unit, and what a value is divided by (exact powers of ten, so rounding is once)."""
_NOT_A_NAME = re.compile("[^a-zA-Z0-9_]")

_OWN = ("perf_gate_run", "perf_gate_run_info", "perf_gate_exit_code", "perf_gate_points", "perf_gate_effect_ratio")

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Family:
    """`samples`: labels and value, None of an info's 1."""

    name: str
    kind: str
    help: str
    unit: str
    samples: tuple[tuple[Labels, float], ...]


def render_openmetrics(result: GateResult) -> str:
    """`result` as an OpenMetrics exposition; ends with "# EOF" and a newline."""
    lines: list[str] = []
    for family in _families(result):
        suffix = "_info" if family.kind == "info" else ""
        lines += [f"# TYPE {family.name} {family.kind}"]
        lines += [f"# UNIT {family.name} {family.unit}"] if family.unit else []
        lines += [f"# HELP {family.name} {_escape(family.help)}", *_samples(family, suffix)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def render_prometheus(result: GateResult) -> str:
    """`result` in Prometheus' text format 0.0.4, which the textfile collector reads; ends with a newline."""
    lines: list[str] = []
    for family in _families(result):
        suffix = "_info" if family.kind == "info" else ""
        text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
        lines += [f"# HELP {family.name}{suffix} {text}", f"# TYPE {family.name}{suffix} gauge"]
        lines += _samples(family, suffix)
    return "\n".join(lines) + "\n"


def _samples(family: _Family, suffix: str) -> Iterator[str]:
    for labels, value in family.samples:
        inner = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
        yield f"{family.name}{suffix}{'{' + inner + '}' if inner else ''} {value!r}"


def _escape(text: str) -> str:
    return readable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _families(result: GateResult) -> Iterator[_Family]:
    suite = result.suite
    facts = {"verdict": suite.verdict.value, "kind": result.kind, "base": result.base, "head": result.head,
             "gpu": str(result.machine.get("gpu") or "unknown")}  # fmt: skip
    if result.commit is not None:
        facts["commit"] = result.commit
    yield _Family("perf_gate_run", "info", "What was judged, and the verdict", "", ((facts, 1.0),))
    yield _Family("perf_gate_exit_code", "gauge", "What the command ended with; 0 is a pass", "",
                  (({}, float(suite.exit_code)),))  # fmt: skip
    counts = Counter(point.verdict for point in suite.points)
    yield _Family("perf_gate_points", "gauge", "Verdicts on points and metrics", "",
                  tuple(({"verdict": verdict.value}, float(counts[verdict])) for verdict in Verdict))  # fmt: skip
    effects = tuple(
        ({"point": point.point, "metric": point.metric}, float(point.figures.effect))
        for point in suite.points
        if point.figures is not None and point.figures.effect is not None and math.isfinite(point.figures.effect)
    )
    if effects:
        told = "By how much head is slower (0.05 is 5 %); of a part of the step: as a share of the step"
        yield _Family("perf_gate_effect_ratio", "gauge", told, "ratio", effects)
    yield from _levels(result)


def _levels(result: GateResult) -> Iterator[_Family]:
    by_metric: dict[str, list[Value]] = {}
    for value in values_of(result, ("base", "head")):
        by_metric.setdefault(value.metric, []).append(value)
    names = _names(by_metric)
    for metric, values in by_metric.items():
        unit, divisor = _UNITS[values[0].unit]
        samples = tuple(
            ({"point": value.point, "arm": value.arm, "stat": stat}, float(number) / divisor)
            for value in values
            for stat, number in (
                ("median", value.level.value), ("low", value.level.low), ("high", value.level.high),
            )
        )  # fmt: skip
        yield _Family(names[metric], "gauge", f"{metric}: median, smallest and largest launch", unit, samples)


def _names(metrics: Mapping[str, list[Value]]) -> dict[str, str]:
    """A family's name for each metric: "period_p50_ns" → "perf_period_p50_seconds". Equal ones get a hash, and so does
    one that is called as the gate's own families or their samples are."""
    plain = {metric: _name(metric, values[0].unit) for metric, values in metrics.items()}
    seen = Counter([*plain.values(), *_OWN])
    return {metric: _name(metric, metrics[metric][0].unit, tag=True) if seen[name] > 1 else name
            for metric, name in plain.items()}  # fmt: skip


def _name(metric: str, unit: str, *, tag: bool = False) -> str:
    stem = "_".join(part for part in _NOT_A_NAME.sub("_", metric).split("_") if part and part != unit)
    parts = ["perf", *stem.split("_")[:40], _hash(metric) if tag else "", _UNITS[unit][0]]
    return "_".join(part[:100] for part in parts if part)


def _hash(metric: str) -> str:
    return hashlib.sha256(metric.encode("utf-8", "surrogatepass")).hexdigest()[:8]
