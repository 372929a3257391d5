"""The block-table copy: what it shared time with, what of it was exposed, and what a free copy would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.doses import DoseResponse, dose_response
from ...analysis.exposure import Exposure, exposure
from ...analysis.overlap import copy_overlap
from ...analysis.queue_delays import queue_delays
from ...analysis.replay import Replays
from ...analysis.stats import Number, mean, median, quantile
from ...analysis.table_copies import BLOCK_TABLE, table_buffers
from ...analysis.tables import BoolArray, TableSource, flags, floats, ints, texts
from ...analysis.what_if import Change, WhatIf, faster_phase, table_copies, what_if
from ...analysis.what_if_checks import check_command
from ...analysis.what_if_more import deeper_ring, graphs_on
from ...analysis.window import MASKS
from ..decimation import keep_extremes
from .table_groups import GroupCopies, group_copies


@dataclass(frozen=True, slots=True)
class Figures:
    """A column over the counted copies: how many have it, and its quantiles in ns."""

    name: str
    n: int
    p10_ns: Number | None
    p50_ns: Number | None
    p90_ns: Number | None
    mean_ns: Number | None
    reason: str


@dataclass(frozen=True, slots=True)
class CopyView:
    """Copies of `buffer` in the counted steps.

    others      buffers beside it that brought block tables, and how many copies each had: not in `figures`
    groups      a row a buffer that brought block tables, where there are several
    figures     copy, queue_delay, exposed, hidden, err of the copy's times, overlaps (with bounds): quantiles of each
    fractions   partner -> median fraction of the copy that lay inside it, None where the copies are not resolved
    split       mask -> mean time hidden behind it, over the copies whose exposure is known
    exposure    the analysis's answer, row by row
    what_if     predictions of the replay;  checks  the command that measures each;  doses  copies 2 and 4 times as long
    points      rows of the chart: step, copy_ns, exposed_ns, build_ns; decimated, extremes of the exposure kept
    bins        how often which exposure occurred, of all copies whose exposure is known: low_ns, high_ns, copies
    """

    buffer: str
    num_copies: int
    size_p50_bytes: Number | None
    size_max_bytes: Number | None
    figures: tuple[Figures, ...]
    fractions: dict[str, float | None]
    split: dict[str, Number | None]
    exposure: Exposure
    points: pd.DataFrame
    bins: pd.DataFrame
    what_if: tuple[WhatIf, ...]
    checks: tuple[str, ...]
    doses: DoseResponse
    others: dict[str, int] = field(default_factory=dict)
    groups: tuple[GroupCopies, ...] = ()

    def figure(self, name: str) -> Figures:
        """The quantiles of one column by its name."""
        return next(figures for figures in self.figures if figures.name == name)


OVERLAPS = ("build", "preprocess", "previous_forward")


def gather_copies(
    recording: TableSource, configuration: Mapping[str, Any] = MappingProxyType({})
) -> CopyView:
    """The view of the buffer with most block-table copies. A recording without copies gives n = 0
    and the reason everywhere. `configuration` is the recording's own: what-ifs name their checks by it.
    """
    counts = table_buffers(recording)
    buffer = next(iter(counts), BLOCK_TABLE)
    found, overlap = exposure(recording, buffer), copy_overlap(recording, buffer)
    exposed, shared = _counted(found.steps), _counted(overlap)
    said = recording.reason("copies", "start_ns") if isinstance(recording, Replays) else None
    why_exposed, why_shared = _usual_reason(exposed, said), _usual_reason(shared, said)
    figures = [_figures(exposed, name, why_exposed) for name in ("copy", "exposed", "hidden")]
    figures.append(_delay_figures(recording, buffer, why_exposed))
    figures.append(_figures(shared, "err", why_shared))
    for partner in OVERLAPS:
        figures += [_figures(shared, f"{partner}{bound}", why_shared) for bound in ("", "_min", "_max")]
    sizes, sized = ints(exposed, "size_bytes")
    changes = _changes(tuple(counts) or (buffer,))
    answers = (*(what_if(recording, change) for change in changes), graphs_on(recording), deeper_ring(recording))
    return CopyView(
        buffer=buffer, num_copies=len(exposed), size_p50_bytes=median(sizes[sized]),
        size_max_bytes=int(sizes[sized].max()) if sized.any() else None, figures=tuple(figures),
        fractions={partner: _median_fraction(shared, f"{partner}_fraction") for partner in OVERLAPS},
        split={mask: _figures(exposed, f"hidden_by_{mask}", why_exposed).mean_ns for mask in MASKS},
        exposure=found, points=_points(exposed, shared), bins=_bins(exposed),
        what_if=answers, checks=tuple(check_command(answer.change, configuration) for answer in answers),
        doses=dose_response(recording, buffer),
        others={name: count for name, count in counts.items() if name != buffer},
        groups=group_copies(recording, tuple(counts), found),
    )


def _changes(buffers: tuple[str, ...]) -> tuple[Change, ...]:
    return table_copies(buffers, 0.0), table_copies(buffers, 2.0), faster_phase("preprocess", 0.3)


def _counted(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[flags(frame, "counted", null=False)].reset_index(drop=True)


def _usual_reason(frame: pd.DataFrame, said: str | None) -> str:
    """The reason that most null rows give; what to say when there is no row, or the recording itself says why."""
    if not len(frame):
        return "no copy of the buffer was recorded in a counted step"
    if said is not None and not ints(frame, "copy_ns")[1].any():
        return said
    reasons = Counter(reason for reason in texts(frame, "reason") if reason)
    return reasons.most_common(1)[0][0] if reasons else "the recording does not say why"


def _figures(frame: pd.DataFrame, name: str, reason: str) -> Figures:
    values, valid = ints(frame, f"{name}_ns")
    known = values[valid]
    return Figures(name, len(known), quantile(known, 10), median(known), quantile(known, 90), mean(known), reason)


def _delay_figures(recording: TableSource, buffer: str, reason: str) -> Figures:
    """Quantiles over all copies, those that began before their call returned included: null where they fall on one."""
    found = queue_delays(recording, buffer)
    quantiles = (found.quantile(10), found.median(), found.quantile(90))
    return Figures("queue_delay", len(found.values), *quantiles, found.mean(), found.reason() or reason)


def _median_fraction(frame: pd.DataFrame, column: str) -> float | None:
    values, valid = floats(frame, column)
    return float(np.median(values[valid])) if valid.any() else None


def _points(exposed: pd.DataFrame, shared: pd.DataFrame) -> pd.DataFrame:
    frame = exposed.reindex(columns=["step", "copy_ns", "exposed_ns"])
    # Both tables hold a row a copy in recorded order; where the overlap's differ (a source without it) it is left out.
    build = shared["build_ns"].array if len(shared) == len(exposed) and len(shared) else [None] * len(frame)
    frame = frame.assign(build_ns=pd.array(build, dtype="Int64"))
    values, known = ints(frame, "exposed_ns")
    lengths, timed = ints(frame, "copy_ns")
    kept: BoolArray = np.zeros(len(frame), dtype=np.bool_)
    for numbers, valid in ((values, known), (lengths, timed)):
        kept[keep_extremes(np.where(valid, numbers.astype(np.float64), np.nan), 1_000)] = True
    return frame[kept]


def _bins(exposed: pd.DataFrame) -> pd.DataFrame:
    """40 bins of equal width from the least exposure to the greatest; a single one where they are equal."""
    values, known = ints(exposed, "exposed_ns")
    values = values[known]
    counts, edges = [len(values)], [float(value) for value in values[:1]] * 2
    if not len(values):
        counts, edges = [], []
    elif values.min() < values.max():
        found = np.histogram(values, bins=40)
        counts, edges = found[0].tolist(), found[1].tolist()
    return pd.DataFrame({
        "low_ns": pd.array(edges[:-1], dtype="Float64"), "high_ns": pd.array(edges[1:], dtype="Float64"),
        "copies": pd.array(counts, dtype="Int64"),
    })
