"""What a profiler's trace (CUPTI through torch.profiler) says, as typed events, and the figures read off it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from ...errors import MeasurementError

DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One complete event of a Chrome trace. Times in ns from the trace's own origin; bytes of copies only."""

    name: str
    category: str
    start_ns: float
    end_ns: float
    correlation: int | None = None
    size_bytes: int | None = None


def events_of(trace: Sequence[dict[str, Any]]) -> list[TraceEvent]:
    """The complete events (phase X) among `traceEvents`; their times are microseconds there."""
    return [
        TraceEvent(
            name=event["name"], category=event.get("cat", ""), start_ns=event["ts"] * 1e3,
            end_ns=(event["ts"] + event["dur"]) * 1e3, correlation=event.get("args", {}).get("correlation"),
            size_bytes=event.get("args", {}).get("bytes"),
        )
        for event in trace if event.get("ph") == "X"
    ]  # fmt: skip


def copy_medians(
    events: Sequence[TraceEvent], direction: str, sizes: Sequence[int], rounds: int = 1
) -> dict[int, float]:
    """Device time in ns of the copies of each size, the least median of `rounds` equal parts of the trace: whoever else
    uses the bus only ever adds. `direction` is HtoD or DtoH.

    Raises MeasurementError when a size was not seen: the profiler lost records, or had no right to take them.
    """
    seen: dict[int, list[float]] = {size: [] for size in sizes}
    for event in sorted(events, key=lambda event: event.start_ns):
        if event.category == "gpu_memcpy" and direction in event.name and event.size_bytes in seen:
            seen[event.size_bytes].append(event.end_ns - event.start_ns)
    missing = [size for size, durations in seen.items() if not durations]
    if missing:
        raise MeasurementError(
            f"profiler (CUPTI): no {direction} copy of {missing[0]} bytes in its trace; another profiler may hold CUPTI"
        )
    return {size: _least_median(durations, rounds) for size, durations in seen.items()}


def _least_median(values: Sequence[float], rounds: int) -> float:
    length = max(len(values) // rounds, 1)
    return min(statistics.median(values[begin : begin + length]) for begin in range(0, len(values), length))


def latency_and_wakeup(events: Sequence[TraceEvent], call: str) -> tuple[float, float]:
    """Medians in ns: from the end of each API call named `call...` to the start of what it caused on the device, and
    from the end of that to the return of the wait that follows. Raises MeasurementError when no pair is found.
    """
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for event in events:
        if event.category in DEVICE_CATEGORIES and event.correlation is not None:
            first[event.correlation] = min(first.get(event.correlation, event.start_ns), event.start_ns)
            last[event.correlation] = max(last.get(event.correlation, event.end_ns), event.end_ns)
    calls = {
        event.correlation: event.end_ns for event in events
        if event.category.startswith("cuda_") and event.name.startswith(call) and event.correlation in first
    }  # fmt: skip
    waits = sorted(event.end_ns for event in events if event.name.startswith("cudaEventSynchronize"))
    latencies = [first[number] - end for number, end in calls.items() if number is not None]
    wakeups = [_next(waits, last[number]) - last[number] for number in calls if number is not None]
    known = [wakeup for wakeup in wakeups if wakeup != float("inf")]
    if not latencies or not known:
        raise MeasurementError(f"profiler (CUPTI): no {call} with its device record and its wait in the trace")
    return statistics.median(latencies), statistics.median(known)


def _next(ascending: Sequence[float], at: float) -> float:
    return next((value for value in ascending if value >= at), float("inf"))
