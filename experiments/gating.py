"""The gate against a stored history: what is read, matched, judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..analysis.gate.exact import judge_exact
from ..analysis.gate.fingerprint import differences, told
from ..analysis.gate.history import Result, judge_history
from ..analysis.gate.limits import Limits
from ..analysis.gate.matching import ALL, unmatched
from ..analysis.gate.point import PointVerdict
from ..analysis.gate.result import GateResult, Levels, level_of
from ..analysis.gate.suite import judge_suite
from ..analysis.gate.verdict import Reason, Verdict
from ..errors import UsageError
from .gating_results import read_results

TIMED = (
    "period_p50_ns", "preprocess_p50_ns", "forward_p50_ns", "sample_p50_ns",
    "preprocess_span_p50_ns", "forward_span_p50_ns", "sample_span_p50_ns",
)  # fmt: skip
COUNTED = (
    "async_pageable", "hazards_observed", "hazards_possible", "num_syncs", "num_launches", "num_h2d",
    "padding_token_share",
)  # fmt: skip
"""Of a summary of ours: `TIMED` by the prediction interval, `COUNTED` exactly against the newest stored result."""
_TIME_UNITS = frozenset({"ns", "us", "ms", "s"})


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """`baseline`: oldest first. `metrics`: none chosen takes those of ours, or all that carry a unit of time."""

    baseline: tuple[Path, ...]
    head: Path
    metrics: tuple[str, ...] = ()
    allow_new: bool = False
    compare_anyway: bool = False
    limits: Limits = field(default_factory=Limits)


def gate_history(request: HistoryRequest) -> GateResult:
    """The verdict on the head's result against the stored ones, and what makes it the weaker promise."""
    stored = [result for path in request.baseline for result in read_results(path)]
    heads = read_results(request.head)
    if len(heads) != 1:
        raise UsageError(f"{request.head}: holds {len(heads)} results; the head is one")
    head = heads[0]
    differ = next((found for result in stored if (found := differences(result.machine, head.machine))), ())
    if differ and not request.compare_anyway:
        reason = Reason.UNKNOWN_MACHINE if any(item.unknown for item in differ) else Reason.OTHER_MACHINE
        verdicts = [PointVerdict(ALL, ALL, Verdict.INCOMPARABLE, reason, detail=told(differ))]
    else:
        verdicts = _judged(stored, head, request)
    notes = [f"Against {len(stored)} stored results: a weaker promise than both versions side by side."]
    if differ:
        notes.append(f"NOT THE SAME MACHINE ({told(differ)})")
    names = ", ".join(str(path) for path in request.baseline), str(request.head)
    suite = judge_suite(verdicts, request.limits)
    levels = {} if differ and not request.compare_anyway else _levels(stored, head, verdicts)
    return GateResult(suite, "history", *names, head.machine, tuple(notes), levels)


def _levels(
    stored: Sequence[Result], head: Result, verdicts: Iterable[PointVerdict]
) -> dict[tuple[str, str], Levels]:
    """Of what was judged: the stored values, and the new one."""
    names = [(one.point, one.metric) for one in verdicts if one.metric != ALL]
    return {
        name: Levels(level_of(result.values.get(name) for result in stored), level_of([head.values.get(name)]))
        for name in names
    }


def _judged(stored: Sequence[Result], head: Result, request: HistoryRequest) -> list[PointVerdict]:
    before = dict.fromkeys(point for result in stored for point in _points(result))
    verdicts = unmatched(before, _points(head), allow_new=request.allow_new)
    for point in before:
        if point in head.failures:
            detail = f"head: {head.failures[point]}"
            verdicts.append(PointVerdict(point, ALL, Verdict.ERROR, Reason.ARM_FAILED, detail=detail))
        elif point in _points(head):
            verdicts += _of_point(point, stored, head, request)
    return verdicts


def _points(result: Result) -> dict[str, None]:
    return dict.fromkeys([*(point for point, _ in result.values), *result.failures])


def _of_point(point: str, stored: Sequence[Result], head: Result, request: HistoryRequest) -> list[PointVerdict]:
    names = dict.fromkeys(metric for result in (*stored, head) for at, metric in result.values if at == point)
    chosen = request.metrics or [metric for metric in _default(names) if _anywhere(point, metric, stored, head)]
    if not chosen:
        return [PointVerdict(point, ALL, Verdict.ERROR, Reason.NOT_MEASURED, detail="no gated metric")]
    found = []
    for metric in chosen:
        values = [result.values.get((point, metric)) for result in stored]
        new = head.values.get((point, metric))
        if metric in COUNTED:
            found.append(judge_exact(point, metric, {"base": values[-1:], "head": [new]}))
        else:
            found.append(judge_history(point, metric, values, new, request.limits))
    return found


def _anywhere(point: str, metric: str, stored: Iterable[Result], head: Result) -> bool:
    """Whether any result has it. A figure that neither side can have (no copy, no GPU) is not judged unless asked."""
    return any(result.values.get((point, metric)) is not None for result in (*stored, head))


def _default(names: Iterable[str]) -> list[str]:
    present = list(names)
    ours = [metric for metric in (*TIMED, *COUNTED) if metric in present]
    return ours or [metric for metric in present if not _TIME_UNITS.isdisjoint(metric.split("_"))]
