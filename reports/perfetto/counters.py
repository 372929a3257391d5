"""Counters over time: what each step carried, and what the GPU's sensors said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...analysis.columns import Columns

_OF_STEPS = {
    "tokens": {"num_tokens": "scheduled", "padded_tokens": "padded"}, "requests": {"num_reqs": "running"},
    "KV tokens": {"kv_tokens_sum": "sum"},
}  # fmt: skip
_OF_SENSORS = {
    "SM clock [MHz]": {"sm_clock_mhz": "sm"}, "power [mW]": {"power_mw": "gpu"},
    "GPU memory [bytes]": {"memory_used_bytes": "used"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Count:
    """The values of one counter from a moment on."""

    name: str
    at_ns: int
    values: dict[str, int]


def counts_of_steps(steps: Columns) -> Iterator[Count]:
    """Tokens, requests and KV tokens, from the start of each step; a value that was not recorded leaves none."""
    yield from _counts(steps, "start_ns", _OF_STEPS)


def counts_of_sensors(telemetry: Columns) -> Iterator[Count]:
    """Clock, power and memory of the GPU."""
    yield from _counts(telemetry, "time_ns", _OF_SENSORS)


def _counts(rows: Columns, time: str, wanted: dict[str, dict[str, str]]) -> Iterator[Count]:
    at, timed = rows.ints(time)
    for name, columns in wanted.items():
        told = {label: rows.ints(column) for column, label in columns.items()}
        for row in range(len(rows)):
            values = {label: int(value[row]) for label, (value, valid) in told.items() if valid[row]}
            if timed[row] and values:
                yield Count(name, int(at[row]), values)
