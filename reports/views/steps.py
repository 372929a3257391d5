"""Which steps of a recording are worth looking at: typical, slow, first steady, most exposed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...analysis.table_copies import table_buffer
from ...analysis.tables import BoolArray, LongArray, Process, TableSource, counted_steps, flags, ints, processes
from .timeline import StepTimeline, step_timeline


@dataclass(frozen=True, slots=True)
class Chosen:
    """A step number and why it was chosen."""

    step: int
    why: str


def gather_timelines(recording: TableSource, exposures: pd.DataFrame) -> tuple[StepTimeline, ...]:
    """Timelines of the chosen steps of the first process that has steps. `exposures` as `Exposure.steps`."""
    process = next((p for p in processes(recording) if len(p.table("steps"))), None)
    if process is None:
        return ()
    buffer = table_buffer(recording)
    lines = (step_timeline(process, chosen.step, chosen.why, buffer) for chosen in choose_steps(process, exposures))
    return tuple(line for line in lines if line is not None)


def choose_steps(process: Process, exposures: pd.DataFrame) -> tuple[Chosen, ...]:
    """Steps in the order of the list; one that answers to several descriptions appears once, with all of them."""
    found: dict[int, list[str]] = {}
    for chosen in _candidates(process.table("steps"), exposures):
        found.setdefault(chosen.step, []).append(chosen.why)
    return tuple(Chosen(step, ", ".join(why)) for step, why in found.items())


def _candidates(steps: pd.DataFrame, exposures: pd.DataFrame) -> Iterator[Chosen]:
    numbers, numbered = ints(steps, "step")
    counted = np.flatnonzero(numbered & counted_steps(steps))
    lengths, timed = _lengths(steps)
    rows = counted[timed[counted]]
    if not len(rows):
        yield from (Chosen(int(number), "first step") for number in numbers[numbered][:1])
        return
    order = rows[np.argsort(lengths[rows], kind="stable")]
    yield Chosen(int(numbers[order[(len(order) - 1) // 2]]), "median")
    yield Chosen(int(numbers[order[_rank(len(order), 99)]]), "p99")
    yield Chosen(int(numbers[order[-1]]), "slowest")
    yield Chosen(int(numbers[order[0]]), "fastest")
    yield Chosen(int(numbers[rows[0]]), "first steady")
    tokens, known = ints(steps, "num_tokens")
    if known[rows].any():
        yield Chosen(int(numbers[rows[np.argmax(np.where(known[rows], tokens[rows], -1))]]), "most tokens")
    most = _most_exposed(exposures)
    if most is not None:
        yield Chosen(most, "most exposed copy")


def _lengths(steps: pd.DataFrame) -> tuple[LongArray, BoolArray]:
    """The periods; where no step has one, end - start. The two are never mixed: a period has the time between in it."""
    period, has_period = ints(steps, "period_ns")
    if has_period.any():
        return period, has_period
    (start, started), (end, ended) = ints(steps, "start_ns"), ints(steps, "end_ns")
    return end - start, started & ended


def _rank(n: int, percent: int) -> int:
    return max(0, -(-n * percent // 100) - 1)


def _most_exposed(exposures: pd.DataFrame) -> int | None:
    values, known = ints(exposures, "exposed_ns")
    numbers, numbered = ints(exposures, "step")
    rows = np.flatnonzero(known & numbered & flags(exposures, "counted", null=True))
    return int(numbers[rows[np.argmax(values[rows])]]) if len(rows) else None
