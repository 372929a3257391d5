"""What the kernels of a replayed forward take, attention's and all others, by the profiler's trace (CUPTI).

A forward is T = G(size) + A(rows, KV), and padding is to change G alone. No stopwatch around a replay shows G beside
long sequences: at 8,192 tokens a row A is 5 ms (H200), and two graphs' A over the same rows need only differ by 0.2 %
for the 10 us that were measured. The kernels tell G and A apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import MeasurementError
from ...runner.config import RunnerConfig
from ...runner.model_runner import ModelRunner
from ..calibrate.bench import Bench, Call
from ..calibrate.trace import TraceEvent
from .replays import padded_and_actual
from .shapes import ReplayShape

ATTENTION = ("split_decode", "reduce_splits", "mixed_attention")
"""Kernels of `runner.kernels` that read the KV cache."""
TURNS, REPLAYS = (0, 1, 1, 0), 10
"""Padded and actual size in turns, a trace of so many replays each."""


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Sums over one replay's kernels, in ns: medians over replays."""

    attention_ns: float
    other_ns: float


def replay_kernels(
    runner: ModelRunner, config: RunnerConfig, bench: Bench, shape: ReplayShape
) -> tuple[KernelTimes, KernelTimes]:
    """Of a shape in its padded graph and in one of its own size, over the same rows. Overwrites buffers and KV."""
    calls = padded_and_actual(runner, config, bench, shape)
    bench.trace(calls[0])  # the first trace of a process may begin late
    found: tuple[list[KernelTimes], list[KernelTimes]] = ([], [])
    for which in TURNS:
        found[which].append(kernel_times(bench.trace(_replays(calls[which])), REPLAYS))
    padded, actual = (_mean(times) for times in found)
    return padded, actual


def kernel_times(events: Sequence[TraceEvent], replays: int) -> KernelTimes:
    """What one of `replays` equal replays takes, by a trace of nothing else.

    Raises MeasurementError where the replays do not have equally many kernels: the profiler lost records.
    """
    kernels = sorted((event for event in events if event.category == "kernel"), key=lambda event: event.start_ns)
    if not kernels or len(kernels) % replays:
        raise MeasurementError(
            f"profiler (CUPTI): {len(kernels)} kernels in a trace of {replays} equal replays; another profiler may hold"
            " CUPTI, or records were lost: repeat it"
        )
    took = np.array([event.end_ns - event.start_ns for event in kernels]).reshape(replays, -1)
    own = np.array([any(name in event.name for name in ATTENTION) for event in kernels]).reshape(replays, -1)
    attention, other = (np.where(chosen, took, 0).sum(axis=1) for chosen in (own, ~own))
    return KernelTimes(float(np.median(attention)), float(np.median(other)))


def _replays(call: Call) -> Call:
    def work() -> None:
        for _ in range(REPLAYS):
            call()

    return work


def _mean(times: Sequence[KernelTimes]) -> KernelTimes:
    attention, other = np.mean([(one.attention_ns, one.other_ns) for one in times], axis=0)
    return KernelTimes(float(attention), float(other))
