"""What `perf history` found as strict JSON.

    {"schema": 1, "results": n, "in_time": bool, "machines": [{"gpu": ..., ...}], "unknown_machine": ["label", ...],
     "limits": {...},
     "series": [{"point", "metric", "unit", "machine": index into machines, "state", "measured", "holes", "level",
                 "noise", "likeness", "detectable", "newest": {"count", "effect", "first"} | null,
                 "steps": [{"last_good", "first_bad", "likely_before", "likely_after": {"commit", "time", "label"},
                            "commits": [...], "before", "after", "effect", "p", "num_before", "num_after", "slower",
                            "within_commit"}],
                 "values": [[name, value or null], ...]}]}

`values` are in order; null is what was not measured. Levels are in the metric's own unit, effects and noise fractions.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...analysis.gate.result import unit_of
from ...analysis.history.found import Newest, SeriesFound, Step
from ...analysis.history.series import Stored
from ..gate.characters import readable
from .view import HistoryView

SCHEMA = 1


def history_report(view: HistoryView) -> dict[str, Any]:
    """The tree; `reports.jsonable.to_json` writes it."""
    machines = [{field: readable(v) if isinstance(v, str) else v for field, v in machine} for machine in view.machines]
    return {
        "schema": SCHEMA, "results": view.num_results, "in_time": view.in_time, "machines": machines,
        "unknown_machine": [readable(one.label) for one in view.unknown], "limits": asdict(view.limits),
        "series": [_series(found, view) for found in view.series],
    }  # fmt: skip


def _series(found: SeriesFound, view: HistoryView) -> dict[str, Any]:
    series = found.series
    return {
        "point": readable(series.point), "metric": readable(series.metric), "unit": unit_of(series.metric),
        "machine": view.machines.index(series.machine), "state": found.state.value, "measured": found.measured,
        "holes": found.holes, "level": found.level, "noise": found.noise, "likeness": found.likeness,
        "detectable": found.detectable, "newest": None if found.newest is None else _newest(found.newest),
        "steps": [_step(step) for step in found.steps],
        "values": [[readable(one.name), value] for one, value in zip(series.results, series.values, strict=True)],
    }  # fmt: skip


def _newest(newest: Newest) -> dict[str, Any]:
    return {"count": newest.count, "effect": newest.effect, "first": _place(newest.first)}


def _step(step: Step) -> dict[str, Any]:
    return {
        "last_good": _place(step.last_good), "first_bad": _place(step.first_bad),
        "likely_before": _place(step.likely_before), "likely_after": _place(step.likely_after),
        "commits": [readable(name) for name in step.commits], "before": step.before, "after": step.after,
        "effect": step.effect, "p": step.p, "num_before": step.num_before, "num_after": step.num_after,
        "slower": step.slower, "within_commit": step.within_commit and readable(step.within_commit),
    }  # fmt: skip


def _place(stored: Stored) -> dict[str, str | None]:
    commit = None if stored.commit is None else readable(stored.commit)
    return {"commit": commit, "time": stored.time, "label": readable(stored.label)}
