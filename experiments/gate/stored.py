"""The gate against a stored history: what is read, matched, judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...analysis.gate.block_values import DEVICE, EXPOSED
from ...analysis.gate.direction import COUNTED, UNKNOWN_DIRECTION, is_time, less_is_better
from ...analysis.gate.exact import EXACT, judge_exact
from ...analysis.gate.fingerprint import differences, modelled_note, told
from ...analysis.gate.history import Result, judge_history
from ...analysis.gate.history_share import judge_history_share
from ...analysis.gate.limits import Limits
from ...analysis.gate.matching import ALL, unmatched
from ...analysis.gate.point import PointVerdict
from ...analysis.gate.result import GateResult, Levels, level_of
from ...analysis.gate.suite import judge_suite
from ...analysis.gate.verdict import Reason, Verdict
from ...analysis.history.series import Stored
from ...analysis.pace import IN_FLIGHT, PACE, PERIOD, pipelined
from ...errors import UsageError
from ..history.distinct import refuse_copies, refuse_same_paths
from ..history.store import files_of, read_stored

Named = tuple[str, Iterable[str]]
"""A point, and the names of its metrics."""
TIMED = (
    PACE, PERIOD, "preprocess_p50_ns", "forward_p50_ns", "sample_p50_ns",
    "preprocess_span_p50_ns", "forward_span_p50_ns", "sample_span_p50_ns", DEVICE, "table_copy_p50_ns", EXPOSED,
)  # fmt: skip
"""Of a summary of ours: `TIMED` by the prediction interval, `COUNTED` exactly against the newest stored result. The
median period is not judged where steps are pipelined, their pace is."""


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """`baseline`: oldest first; a folder's by time.

    `metrics`: none chosen takes those of ours, or all that carry a unit of time.
    """

    baseline: tuple[Path, ...]
    head: Path
    metrics: tuple[str, ...] = ()
    allow_new: bool = False
    compare_anyway: bool = False
    limits: Limits = field(default_factory=Limits)


def gate_history(request: HistoryRequest) -> GateResult:
    """The verdict on the head's result against the stored ones, and what makes it the weaker promise."""
    stored, new = _read(request)
    head = new.result
    differ = next((found for result in stored if (found := differences(result.machine, head.machine))), ())
    if differ and not request.compare_anyway:
        reason = Reason.UNKNOWN_MACHINE if any(item.unknown for item in differ) else Reason.OTHER_MACHINE
        verdicts = [PointVerdict(ALL, ALL, Verdict.INCOMPARABLE, reason, detail=told(differ))]
    else:
        verdicts = _judged(stored, head, request)
    notes = [
        *modelled_note(head.machine),
        f"Against {len(stored)} stored results: a weaker promise than both versions side by side.",
    ]
    if differ:
        notes.append(f"NOT THE SAME MACHINE ({told(differ)})")
    names = ", ".join(str(path) for path in request.baseline), str(request.head)
    suite = judge_suite(verdicts, request.limits)
    levels = {} if differ and not request.compare_anyway else _levels(stored, head, verdicts)
    return GateResult(
        suite, "history", *names, head.machine, tuple(notes), levels, commit=new.commit, time=new.time
    )  # fmt: skip


def _read(request: HistoryRequest) -> tuple[list[Result], Stored]:
    """The stored results, each once, and the head's, which is none of them."""
    for metric in request.metrics:
        if not less_is_better(metric):
            raise UsageError(f"--metric {metric}: {UNKNOWN_DIRECTION}")
    refuse_same_paths((*(file for path in request.baseline for file in files_of(path)), request.head))
    stored = [(str(path.parent / one.label) if files_of(path) == [path] else str(path / one.label), one.result)
              for path in request.baseline for one in read_stored(path)]  # fmt: skip
    heads = read_stored(request.head)
    if len(heads) != 1:
        raise UsageError(f"{request.head}: holds {len(heads)} results; the head is one")
    refuse_copies([(where, result, None) for where, result in (*stored, (str(request.head), heads[0].result))])
    return [result for _, result in stored], heads[0]


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
    names = _names((*stored, head))
    lacking = unmatched(before, _points(head), allow_new=request.allow_new)
    verdicts = [one for one in lacking if one.point not in head.failures]
    for point in _points(head):
        if point in head.failures:
            detail = f"head: {head.failures[point]}"
            verdicts.append(PointVerdict(point, ALL, Verdict.ERROR, Reason.ARM_FAILED, detail=detail))
        elif point in before:
            verdicts += _of_point((point, names.get(point, ())), stored, head, request)
        else:
            verdicts += _of_new((point, names.get(point, ())), head, request)
    return verdicts


def _names(results: Iterable[Result]) -> dict[str, dict[str, None]]:
    """Point -> the metrics that any of `results` names there; found once, since files hold thousands of points."""
    found: dict[str, dict[str, None]] = {}
    for result in results:
        for point, metric in result.values:
            found.setdefault(point, {})[metric] = None
    return found


def _of_new(at: Named, head: Result, request: HistoryRequest) -> list[PointVerdict]:
    """What is wrong with a point that has nothing to be compared with: it, too, must have been measured."""
    point, names = at
    chosen = request.metrics or _chosen(names, point, (), head)
    if not chosen:
        return [PointVerdict(point, ALL, Verdict.ERROR, Reason.NOT_MEASURED, detail="no gated metric")]
    return [found for metric in chosen for found in [_judge(point, metric, [head], head, request.limits)]
            if found.verdict is Verdict.ERROR]  # fmt: skip


def _points(result: Result) -> dict[str, None]:
    return dict.fromkeys([*(point for point, _ in result.values), *result.failures])


def _of_point(at: Named, stored: Sequence[Result], head: Result, request: HistoryRequest) -> list[PointVerdict]:
    point, names = at
    chosen = request.metrics or _chosen(names, point, stored, head)
    if not chosen:
        return [PointVerdict(point, ALL, Verdict.ERROR, Reason.NOT_MEASURED, detail="no gated metric")]
    return [_judge(point, metric, stored, head, request.limits) for metric in chosen]


def _chosen(names: Iterable[str], point: str, stored: Iterable[Result], head: Result) -> list[str]:
    """Where nobody chooses: what any result has, and one figure for what a step takes."""
    known = [metric for metric in _default(names) if _anywhere(point, metric, stored, head)]
    both = [{metric: one.values.get((point, metric)) for metric in (PACE, IN_FLIGHT)} for one in (*stored, head)]
    other = PERIOD if any(map(pipelined, both)) else PACE
    return [metric for metric in known if metric != other]


def _judge(point: str, metric: str, stored: Sequence[Result], head: Result, limits: Limits) -> PointVerdict:
    def values(name: str) -> list[float | None]:
        return [result.values.get((point, name)) for result in stored]

    new = head.values.get((point, metric))
    if metric in COUNTED or metric in EXACT:
        return judge_exact(point, metric, {"base": values(metric)[-1:], "head": [new]})
    if metric == PACE and new is not None and not any(value is not None for value in values(PACE)):
        return PointVerdict(point, metric, Verdict.INCOMPARABLE, Reason.NO_STORED_PACE)
    if metric == EXPOSED:
        whole = PACE if all(value is not None for value in (*values(PACE), head.values.get((point, PACE)))) else PERIOD
        parts = list(zip(values(metric), values(whole), strict=True))
        return judge_history_share(point, metric, parts, (new, head.values.get((point, whole))), limits)
    return judge_history(point, metric, values(metric), new, limits)


def _anywhere(point: str, metric: str, stored: Iterable[Result], head: Result) -> bool:
    """Whether any result has it. A figure that neither side can have (no copy, no GPU) is not judged unless asked."""
    return any(result.values.get((point, metric)) is not None for result in (*stored, head))


def _default(names: Iterable[str]) -> list[str]:
    present = list(names)
    ours = [metric for metric in dict.fromkeys((*TIMED, *COUNTED, *EXACT)) if metric in present]
    return ours or [metric for metric in present if is_time(metric)]
