"""Figures of each step by name: what arms that take turns are compared by, beside the period.

    steps      num_tokens, padded_tokens, host_busy_ns, host_wait_ns, latency_ns
    phases     preprocess_ns, forward_ns, sample_ns        host time
               preprocess_span_ns, forward_span_ns         on the device, between events
    spans      update_states_ns, build_indices_ns, ...     ranges of the host, their sum in the step
    copies     table_call_ns                               the host's call that enqueues the block table's copy
               table_copy_ns                               the copy on the device, between events
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .columns import BoolArray, Columns, LongArray
from .table_copies import table_buffer
from .tables import Process, TableSource, processes

STEP_COLUMNS = ("num_tokens", "padded_tokens", "host_busy_ns", "host_wait_ns", "latency_ns")
PHASES = ("preprocess", "forward", "sample")
SPANS_OF = ("preprocess", "forward")
RANGES = (
    "update_states", "commit_block_table", "build_indices", "copy_inputs", "slot_mapping", "attention_metadata",
    "schedule", "update_from_output",
)  # fmt: skip
Series = dict[str, list[int | None]]


def step_series(recording: TableSource, steps: Sequence[int]) -> Series:
    """Name -> a value for each of `steps`, None where nothing was recorded. Names without any value are left out.

    The recording is of one process; of several only the first is read.
    """
    found = processes(recording)
    if not found:
        return {}
    series = {name: [by_step.get(step) for step in steps] for name, by_step in _all(found[0]).items()}
    return {name: values for name, values in series.items() if any(value is not None for value in values)}


def _all(process: Process) -> Mapping[str, dict[int, int]]:
    steps, phases, spans, copies = (process.rows(name) for name in ("steps", "phases", "spans", "copies"))
    found = {name: _column(steps, name) for name in STEP_COLUMNS}
    for name in PHASES:
        found[f"{name}_ns"] = _column(phases[phases.matches("name", name)], "host_ns")
    for name in SPANS_OF:
        found[f"{name}_span_ns"] = _column(phases[phases.matches("name", name)], "span_ns")
    host = spans[spans.matches("kind", "range")]
    for name in RANGES:
        found[f"{name}_ns"] = _lengths(host[host.matches("name", name)], "start_ns", "end_ns")
    table = copies[copies.matches("buffer", table_buffer(process))]
    found["table_call_ns"] = _lengths(table, "enqueue_start_ns", "enqueue_end_ns")
    found["table_copy_ns"] = _lengths(table, "start_ns", "end_ns")
    return found


def _column(rows: Columns, name: str) -> dict[int, int]:
    values, known = rows.ints(name)
    return _summed(rows, values, known)


def _lengths(rows: Columns, start: str, end: str) -> dict[int, int]:
    (begin, begun), (stop, stopped) = rows.ints(start), rows.ints(end)
    return _summed(rows, stop - begin, begun & stopped)


def _summed(rows: Columns, values: LongArray, known: BoolArray) -> dict[int, int]:
    """Step -> sum of its rows' values."""
    step, numbered = rows.ints("step")
    chosen = known & numbered
    numbers, place = np.unique(step[chosen], return_inverse=True)
    sums = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(sums, place, values[chosen])
    return dict(zip(numbers.tolist(), sums.tolist(), strict=True))
