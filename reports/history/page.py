"""The page of `perf history`: the steps with their commit ranges, the series as charts, and what cannot be said."""

from __future__ import annotations

from collections import Counter

from ...analysis.gate.fingerprint import modelled_note
from ...analysis.history.found import SeriesFound, Step
from ..document import Block, Column, Document, Facts, Missing, Quantity, Row, Section, Table, Words
from ..formatting import count, counted, percent
from ..gate.characters import readable, shortened
from ..gate.words import signed
from .charts import series_chart
from .view import HistoryView
from .words import amount, commit_name, direction, machine_words, range_name, state_words, step_words

_TOLD = 12
"""Steps that are told in sentences; the table has all."""
_LIKENESS = 0.3


def history_document(view: HistoryView, name: str) -> Document:
    """The page of what was found in the results called `name`."""
    chart = series_chart(view)
    sections = [
        Section("steps", "Steps", _steps(view), brief=True),
        *([Section("charts", "Over time", (chart,))] if chart else []),
        Section("series", "Series", (_series(view),), brief=len(view.series) <= _TOLD),
        Section("unsaid", "What this does not say", _unsaid(view), brief=True),
        Section("machines", "Machines", (_machines(view),)),
    ]
    order = "in the order of time" if view.in_time else "in the order given (not every result has a time)"
    subtitle = f"{counted(view.num_results, 'result')}, {order}; {count(len(view.series))} series"
    return Document(f"perf history: {readable(name)}", subtitle, tuple(sections))


def _steps(view: HistoryView) -> tuple[Block, ...]:
    steps = view.steps()
    late = [one for one in view.series if one.newest is not None]
    if not steps and not late:
        of = f"{count(len(view.series))} series"
        told = f"No step in the {count(_decided(view))} of {of} that could be looked through."
        if not _decided(view):
            told = f"None of {of} could be looked through; why stands below."
        return (Words(told, emphasis=True),)
    blocks: list[Block] = [Words(step_words(found, step), emphasis=step.slower) for found, step in steps[:_TOLD]]
    blocks += [Words(_late(one)) for one in late[:_TOLD]]
    left = max(0, len(steps) - _TOLD) + max(0, len(late) - _TOLD)
    if left:
        blocks.append(Words(f"{left} more below."))
    if steps:
        blocks += [_by_commit(view), _table(view)]
    return tuple(blocks)


def _by_commit(view: HistoryView) -> Table:
    """Which commit changed how many series: one commit that slows ten points is one finding."""
    groups: dict[str, list[Step]] = {}
    for _, step in view.steps():
        groups.setdefault(commit_name(step.likely_after), []).append(step)
    columns = (
        Column("first with the new level"), Column("steps", "count", numeric=True),
        Column("worse", "count", numeric=True), Column("worst change", numeric=True),
        Column("same commit on both sides", "count", numeric=True),
    )  # fmt: skip
    rows = []
    for name, steps in sorted(groups.items(), key=lambda item: -len(item[1])):
        effects = [step.effect for step in steps if step.effect is not None]
        rows.append(Row((
            name, Quantity(len(steps), "count"), Quantity(sum(step.slower for step in steps), "count"),
            signed(max(effects)) if effects else Missing("from a level of 0"),
            Quantity(sum(step.within_commit is not None for step in steps), "count"),
        )))  # fmt: skip
    return Table("By commit", columns, tuple(rows), "The most likely one of each step's range.",
                 filterable=len(rows) > _TOLD)  # fmt: skip


def _late(found: SeriesFound) -> str:
    newest = found.newest
    assert newest is not None
    last = "result differs" if newest.count == 1 else f"{newest.count} results differ"
    return (
        f"{readable(found.series.point)}, {readable(found.series.metric)}: the newest {last} by {signed(newest.effect)}"
        f" (from {commit_name(newest.first)} on): too few for a step, measure again."
    )


def _table(view: HistoryView) -> Table:
    columns = (
        Column("what"), Column("point"), Column("metric"), Column("last good .. first bad"), Column("most likely"),
        Column("before", numeric=True), Column("after", numeric=True), Column("change", numeric=True),
        Column("p", numeric=True), Column("results before", "count", numeric=True),
        Column("results after", "count", numeric=True),
    )  # fmt: skip
    rows = []
    for found, step in view.steps():
        metric = found.series.metric
        rows.append(Row((
            "same commit" if step.within_commit is not None else direction(metric, step),
            _short(found.series.point), _short(metric), range_name(step),
            f"{commit_name(step.likely_before)}..{commit_name(step.likely_after)}",
            amount(metric, step.before), amount(metric, step.after),
            Missing("from a level of 0") if step.effect is None else signed(step.effect),
            "exact" if step.p is None else f"{step.p:.1g}",
            Quantity(step.num_before, "count"), Quantity(step.num_after, "count"),
        )))  # fmt: skip
    note = "The step lies in the range with 95 %; p counts in that its place was chosen."
    return Table("All steps, the worse ones first", columns, tuple(rows), note, filterable=len(rows) > _TOLD)


def _series(view: HistoryView) -> Table:
    columns = (
        Column("point"), Column("metric"), Column("machine"), Column("found"), Column("level now", numeric=True),
        Column("results", "count", numeric=True), Column("not measured", "count", numeric=True),
        Column("noise", numeric=True, help="standard deviation within levels"),
        Column("findable", numeric=True, help="least step that three new results would show half of the time"),
    )  # fmt: skip
    rows = []
    for one in view.series:
        why = "exact" if one.state.decided else Missing(state_words(one, view.limits))
        rows.append(Row((
            _short(one.series.point), _short(one.series.metric), f"{view.machines.index(one.series.machine) + 1}",
            state_words(one, view.limits),
            why if one.level is None else amount(one.series.metric, one.level),
            Quantity(one.measured, "count"), Quantity(one.holes, "count"),
            why if one.noise is None else percent(one.noise),
            why if one.detectable is None else signed(one.detectable),
        )))  # fmt: skip
    return Table("Every series", columns, tuple(rows), filterable=len(rows) > _TOLD)


def _decided(view: HistoryView) -> int:
    """How many series could be looked through."""
    return sum(one.state.decided for one in view.series)


def _unsaid(view: HistoryView) -> tuple[Block, ...]:
    limits = view.limits
    texts = [
        f"A step needs {limits.min_segment} results on each side, {signed(limits.min_effect)} or more, and p <"
        f" {limits.alpha:g}."
    ]
    if decided := _decided(view):
        texts[0] += (
            f" That is per series: of {count(decided)} series without a step {limits.alpha * decided:.2g} would show"
            " one by chance."
        )
    texts += dict.fromkeys(note for machine in view.machines for note in modelled_note(dict(machine)))
    states = Counter(state_words(one, limits) for one in view.series if not one.state.decided)
    texts += [f"{number} series: {words}." for words, number in states.items()]
    holes = [one for one in view.series if one.holes]
    if holes:
        texts.append(
            f"{count(len(holes))} series have holes: results that failed, or whose value is missing, null, not a number"
            " or a time of 0. They are no values, and a commit range may reach across them."
        )
    alike = [one for one in view.series if one.likeness is not None and one.likeness > _LIKENESS]
    if alike:
        texts.append(
            f"In {count(len(alike))} series neighbours resemble each other (correlation above {_LIKENESS:g}): the"
            " machine drifts, and small steps may be drift."
        )
    if len(view.machines) > 1:
        texts.append(f"The results come from {len(view.machines)} machines; each is looked at alone.")
    if view.unknown:
        labels = ", ".join(shortened(readable(one.label), 60) for one in view.unknown[:5])
        more = f" and {len(view.unknown) - 5} more" if len(view.unknown) > 5 else ""
        texts.append(f"Left out, since they name no GPU (unknown is not equal): {labels}{more}.")
    return tuple(Words(text) for text in texts)


def _machines(view: HistoryView) -> Facts:
    items = tuple((f"{place}", machine_words(machine)) for place, machine in enumerate(view.machines, 1))
    return Facts("Results are compared only where all of this is equal", items or (("none", Missing("no result")),))


def _short(text: str) -> str:
    return shortened(readable(text), 80)
