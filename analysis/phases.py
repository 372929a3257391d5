"""Where a step's time goes: host time by phase, device time by phase, and whether the host phases close to the period.

Host and device figures stand side by side and are never added: they overlap in time by design.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .columns import BoolArray, Columns, LongArray
from .intervals import Intervals, merge
from .stats import Number, median, quantile, share, total
from .tables import Process, TableSource, counted_steps, gather, ints, nullable, processes, records

HOST_PHASES = ("preprocess", "forward", "sample", "between_steps")
DEVICE_FIGURES = ("span_ns", "starved_ns", "busy_ns")
STEP_KINDS = ("prefill", "mixed", "decode")
CLOSING_LIMIT = 0.01
QUANTILES = {"n": "Int64", "p10_ns": "Int64", "p50_ns": "Float64", "p90_ns": "Int64"}
SHARED_COLUMNS = {"name": "string", **QUANTILES, "share": "Float64"}


@dataclass(frozen=True, slots=True)
class PhaseSummary:
    """The phases of a recording in figures.

    host            a row a phase: name, n, p10_ns, p50_ns, p90_ns, share (of the period, over steps that have both)
    ranges          the same for sub-ranges (`build_indices`, ...); share is of the preprocess phase: of the ranges that
                    began inside it, null where none of that name did
    device          a row a phase and figure: name, figure (span_ns, starved_ns, busy_ns), n, p10_ns, p50_ns, p90_ns;
                    null with n = 0 where nothing was measured
    steps_counted   steps behind the figures; warm-up and incomplete steps are left out and counted
    closing_worst   largest |sum of host phases / period - 1| of a counted step; None when no step has both
    closing_share   share of the checked steps that close within 1 %
    covered         host time in phases, by the sum of the periods of the counted steps; None without a period
    """

    host: pd.DataFrame
    ranges: pd.DataFrame
    device: pd.DataFrame
    steps_counted: int
    steps_warmup: int
    steps_incomplete: int
    closing_checked: int
    closing_worst: float | None
    closing_share: float | None
    covered: float | None


def phase_steps(recording: TableSource) -> pd.DataFrame:
    """A row a step, in step order.

    Columns: step, start_ns, period_ns, preprocess_ns, forward_ns, sample_ns, between_steps_ns (host), sum_ns (null
    unless all four are known), closing (sum / period - 1), timed (no phase that it has is without its time), counted,
    warmup, complete.
    """
    return gather(recording, _phase_steps)


def _phase_steps(process: Process) -> pd.DataFrame:
    steps = process.rows("steps")
    numbers, numbered = steps.ints("step")
    table: dict[str, object] = {"step": nullable(numbers, numbered)}
    for name in ("start_ns", "period_ns"):
        table[name] = nullable(*steps.ints(name))
    sums, known = np.zeros(len(steps), dtype=np.int64), np.ones(len(steps), dtype=np.bool_)
    for phase in HOST_PHASES:
        values, valid = _host_time(process, phase, numbers)
        table[f"{phase}_ns"] = nullable(values, valid)
        sums, known = sums + values, known & valid
    period, has_period = steps.ints("period_ns")
    checked = known & has_period & (period > 0)
    table["sum_ns"] = nullable(sums, known)
    closing = (sums - period) / np.where(checked, period, 1)
    table["closing"] = pd.arrays.FloatingArray(np.where(checked, closing, 0.0), ~checked)
    phases = process.rows("phases")
    untimed = phases.matches("name", *HOST_PHASES) & ~phases.ints("host_ns")[1]
    table["timed"] = ~np.isin(numbers, phases.ints("step")[0][untimed])
    table["counted"] = counted_steps(steps)
    table["warmup"] = steps.flags("warmup", null=False)
    table["complete"] = steps.flags("complete", null=True)
    return pd.DataFrame(table)


def _host_time(process: Process, phase: str, numbers: LongArray) -> tuple[LongArray, BoolArray]:
    """Host time of `phase` in each step; a phase that occurs several times in a step is summed."""
    rows = _named(process, phase)
    return sum_by_step(rows, rows.ints("host_ns"), numbers)


def _named(process: Process, phase: str) -> Columns:
    rows = process.rows("phases")
    return rows[rows.matches("name", phase)]


def sum_by_step(
    rows: Columns, figures: tuple[LongArray, BoolArray], numbers: LongArray
) -> tuple[LongArray, BoolArray]:
    """Sum of the rows' figures for each step number. Null where no row has a value or one of them is null."""
    step, has_step = rows.ints("step")
    values, valid = figures
    sums = np.zeros(len(numbers), dtype=np.int64)
    present, missing = np.zeros(len(numbers), dtype=np.bool_), np.zeros(len(numbers), dtype=np.bool_)
    order = np.argsort(numbers, kind="stable")
    if not len(numbers) or not len(step):
        return sums, present
    place = np.minimum(np.searchsorted(numbers[order], step), len(numbers) - 1)
    target = order[place]
    found = has_step & (numbers[target] == step)
    np.add.at(sums, target[found], values[found])
    present[target[found & valid]] = True
    missing[target[found & ~valid]] = True
    return sums, present & ~missing


def phase_summary(recording: TableSource) -> PhaseSummary:
    """Medians, p10 / p90 (nearest rank) and shares of the counted steps; see `PhaseSummary`."""
    steps = phase_steps(recording)
    counted = steps[steps["counted"].to_numpy(dtype=np.bool_)]
    closing = counted["closing"].dropna().abs().to_numpy(dtype=np.float64)
    return PhaseSummary(
        host=records([_host_row(counted, phase) for phase in HOST_PHASES], SHARED_COLUMNS),
        ranges=_ranges(recording),
        device=_device(recording),
        steps_counted=len(counted),
        steps_warmup=int(steps["warmup"].sum()),
        steps_incomplete=int((~steps["complete"]).sum()),
        closing_checked=len(closing),
        closing_worst=float(closing.max()) if len(closing) else None,
        closing_share=float((closing <= CLOSING_LIMIT).mean()) if len(closing) else None,
        covered=_covered(counted),
    )


def step_kinds(recording: TableSource) -> dict[str, int]:
    """Counted steps by what they compute: prefill (of prompts alone), mixed and decode. Kinds that none is of are left
    out, and so are steps that do not say."""
    found = dict.fromkeys(STEP_KINDS, 0)
    for process in processes(recording):
        steps = process.counted("steps")
        (prefill, knows_prefill), (decode, knows_decode) = steps.ints("num_prefill"), steps.ints("num_decode")
        known = knows_prefill & knows_decode
        prompts, tokens = known & (prefill > 0), known & (decode > 0)
        for kind, own in zip(STEP_KINDS, (prompts & ~tokens, prompts & tokens, tokens & ~prompts), strict=True):
            found[kind] += int(own.sum())
    return {kind: steps for kind, steps in found.items() if steps}


def _covered(counted: pd.DataFrame) -> Number | None:
    """Of steps whose period and phases have their times; a phase that an exception left has none, but took some."""
    period, known = ints(counted, "period_ns")
    known = known & counted["timed"].to_numpy(dtype=np.bool_)
    phases = sum(total(ints(counted, f"{phase}_ns")[0][known]) for phase in HOST_PHASES)
    return share(phases, total(period[known]))


def _quantiles(values: LongArray) -> dict[str, Number | None]:
    return {"n": len(values), "p10_ns": quantile(values, 10), "p50_ns": median(values), "p90_ns": quantile(values, 90)}


def _host_row(counted: pd.DataFrame, phase: str) -> dict[str, object]:
    values, valid = ints(counted, f"{phase}_ns")
    period, has_period = ints(counted, "period_ns")
    both = valid & has_period
    return {"name": phase, **_quantiles(values[valid]), "share": share(total(values[both]), total(period[both]))}


def _ranges(recording: TableSource) -> pd.DataFrame:
    """Host sub-ranges of the counted steps: time of a name in a step, then quantiles over the steps that have it.

    A use inside one of the same name (a function that calls itself) is in its time already.
    """
    found: dict[str, list[LongArray]] = {}
    inside: dict[str, int] = {}
    preprocess = 0
    for process in processes(recording):
        spans, numbers = process.rows("spans"), process.counted_numbers()
        preprocess += total(_host_time(process, "preprocess", numbers)[0])
        ranges, within = spans[spans.matches("kind", "range")], _preprocess(spans)
        for name in dict.fromkeys(name for name in ranges.texts("name") if name is not None):
            rows = _outermost(ranges[ranges.matches("name", name)])
            values, valid = sum_by_step(rows, _times(rows), numbers)
            found.setdefault(name, []).append(values[valid])
            part = rows[_began_in(rows, within)]
            inside[name] = inside.get(name, 0) + total(sum_by_step(part, _times(part), numbers)[0])
    rows_out = []
    for name, parts in found.items():
        own = share(inside[name], preprocess) if inside[name] else None
        rows_out.append({"name": name, **_quantiles(np.concatenate(parts)), "share": own})
    return records(rows_out, SHARED_COLUMNS)


def _outermost(rows: Columns) -> Columns:
    """Rows of one name without those that lie inside another one of their step and lane."""
    (start, has_start), (end, has_end) = rows.ints("start_ns"), rows.ints("end_ns")
    lanes, names = rows.coded("lane")
    group = rows.ints("step")[0] * (len(names) + 1) + lanes
    order = np.lexsort((-end, start, group))
    apart, place = (np.unique(of, return_inverse=True)[1][order] for of in (group, end))
    reach = np.maximum.accumulate(apart * (len(rows) + 1) + place)  # ranks: times of all groups do not fit in an int64
    inside = np.zeros(len(rows), dtype=np.bool_)
    inside[order[1:]] = apart[1:] * (len(rows) + 1) + place[1:] <= reach[:-1]
    return rows[~(inside & has_start & has_end)]


def _times(rows: Columns) -> tuple[LongArray, BoolArray]:
    (start, has_start), (end, has_end) = rows.ints("start_ns"), rows.ints("end_ns")
    return end - start, has_start & has_end


def _preprocess(spans: Columns) -> Intervals:
    """When the host was in preprocess."""
    rows = spans[spans.matches("kind", "phase") & spans.matches("name", "preprocess")]
    (start, has_start), (end, has_end) = rows.ints("start_ns"), rows.ints("end_ns")
    return merge(np.stack((start, end), axis=1)[has_start & has_end])


def _began_in(rows: Columns, within: Intervals) -> BoolArray:
    start, known = rows.ints("start_ns")
    if not len(within):
        return np.zeros(len(rows), dtype=np.bool_)
    place = np.searchsorted(within[:, 0], start, side="right") - 1
    began: BoolArray = known & (place >= 0) & (start < within[place, 1])
    return began


def _device(recording: TableSource) -> pd.DataFrame:
    rows = []
    parts = processes(recording)
    for phase in HOST_PHASES[:-1]:
        for figure in DEVICE_FIGURES:
            values = [_device_values(process, phase, figure) for process in parts]
            joined = np.concatenate(values) if values else np.zeros(0, dtype=np.int64)
            rows.append({"name": phase, "figure": figure, **_quantiles(joined)})
    return records(rows, {"name": "string", "figure": "string", **QUANTILES})


def _device_values(process: Process, phase: str, figure: str) -> LongArray:
    rows = _named(process, phase)
    values, valid = sum_by_step(rows, rows.ints(figure), process.counted_numbers())
    return values[valid]
