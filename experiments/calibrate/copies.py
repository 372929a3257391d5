"""Copies between host and device: their curves, how an event pair misreads them, what a busy stream does to them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from .bench import Bench
from .raw import BiasSample, Copies, CopySample, PageableSample
from .trace import copy_medians

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4, 64, 256, *(KIB << i for i in (0, 2, 3, 4, 5, 6, 7, 8, 9)), *(MIB << i for i in range(7)))
BIAS_SIZES = (32 * KIB, 128 * KIB, MIB)
PAGEABLE_SIZES = (
    4, KIB, 16 * KIB, 64 * KIB, 64 * KIB + 1, 256 * KIB, MIB, MIB + 1, 3 * MIB // 2, 2 * MIB, 3 * MIB, 4 * MIB, 8 * MIB,
)  # fmt: skip
PER_SIZE, ROUNDS = 12, 3
BUSY_US = 3_000
KINDS = ("h2d_pinned", "d2h_pinned", "h2d_pageable")

Copy = Callable[[], object]


def copy_figures(
    bench: Bench, sizes: Sequence[int] = SIZES, bias_sizes: Sequence[int] = BIAS_SIZES,
    pageable_sizes: Sequence[int] = PAGEABLE_SIZES,
) -> Copies:  # fmt: skip
    """All of it. Raises MeasurementError where the profiler's trace lacks a size.

    The profiler comes last: once it was on, each later call of the process pays for it (1.5 us a copy on an H200).
    """
    calls = {kind: _copies(bench, kind, sizes) for kind in KINDS}
    host = {kind: _host_times(bench, kind, calls[kind]) for kind in KINDS}
    pairs = {size: _event_pairs(bench, size) for size in bias_sizes}
    behind = tuple(_behind_work(bench, size) for size in pageable_sizes)
    device = {kind: _device_times(bench, kind, calls[kind]) for kind in KINDS}
    curves = {kind: [CopySample(size, device[kind][size], host[kind][size]) for size in sizes] for kind in KINDS}
    return Copies(
        **{kind: tuple(samples) for kind, samples in curves.items()},
        event_bias=tuple(BiasSample(size, device["h2d_pinned"][size], *pairs[size]) for size in bias_sizes),
        pageable_behind_work=behind,
    )


def _copies(bench: Bench, kind: str, sizes: Sequence[int]) -> dict[int, Copy]:
    """For each size its call, as the runner's device makes it."""
    calls: dict[int, Copy] = {}
    for size in sizes:
        device = torch.zeros(size, dtype=torch.uint8, device=bench.device)
        host = torch.zeros(size, dtype=torch.uint8) if kind == "h2d_pageable" else bench.pinned(size)
        target, source = (host, device) if kind == "d2h_pinned" else (device, host)
        calls[size] = partial(target.copy_, source, non_blocking=True)
    return calls


def _host_times(bench: Bench, kind: str, calls: dict[int, Copy]) -> dict[int, float]:
    batch = 1 if kind == "h2d_pageable" else 10
    return {
        size: bench.host_ns(call, repeats=30 if size >= MIB else 100, batch=batch) for size, call in calls.items()
    }


def _device_times(bench: Bench, kind: str, calls: dict[int, Copy]) -> dict[int, float]:
    """From one trace of bursts behind a busy stream; the bursts of a size lie a round apart."""

    def bursts() -> None:
        for _ in range(ROUNDS):
            for call in calls.values():
                bench.occupy(500)
                for _ in range(PER_SIZE):
                    call()

    bursts()
    bench.drain()
    direction = "DtoH" if kind == "d2h_pinned" else "HtoD"
    return copy_medians(bench.trace(bursts), direction, list(calls), ROUNDS)


def _event_pairs(bench: Bench, size: int) -> tuple[float, float]:
    """What an event pair around the copy reads, behind a busy stream and on an idle one."""
    (call,) = _copies(bench, "h2d_pinned", [size]).values()
    queued, idle = (
        statistics.median(_event_pair(bench, call, occupied=occupied) for _ in range(60)) for occupied in (True, False)
    )
    return queued, idle


def _event_pair(bench: Bench, call: Copy, *, occupied: bool) -> float:
    start, end = bench.event(), bench.event()
    bench.drain()
    if occupied:
        bench.occupy(100)
    start.record(bench.stream())
    call()
    end.record(bench.stream())
    bench.drain()
    return float(start.elapsed_time(end)) * 1e6


def _behind_work(bench: Bench, size: int) -> PageableSample:
    """Host time of a pageable copy on an idle stream, and on one that has about `BUSY_US` of work before it."""
    (call,) = _copies(bench, "h2d_pageable", [size]).values()
    call()
    idle, behind, busy = [], [], []
    start, end = bench.event(), bench.event()
    for _ in range(7):
        bench.drain()
        idle.append(_host_ns(call))
        bench.drain()
        start.record(bench.stream())
        bench.occupy(BUSY_US)
        end.record(bench.stream())
        behind.append(_host_ns(call))
        bench.drain()
        busy.append(start.elapsed_time(end) * 1e6)
    return PageableSample(size, *(statistics.median(samples) for samples in (idle, behind, busy)))


def _host_ns(call: Copy) -> float:
    began_ns = time.perf_counter_ns()
    call()
    return float(time.perf_counter_ns() - began_ns)
