"""How the kernel benchmarks measure: replays of a graph by events, kernels by the profiler, launches by the host."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch

DEVICE = torch.device("cuda")


def capture(fn: Callable[[], object]) -> torch.cuda.CUDAGraph:
    for _ in range(3):
        fn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return graph


def replays_us(fn: Callable[[], object], replays: int = 20) -> list[float]:
    """Device time of each replay of `fn` as a graph, back to back, after three that warm up."""
    graph = capture(fn)
    for _ in range(3):
        graph.replay()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(replays + 1)]
    events[0].record()
    for event in events[1:]:
        graph.replay()
        event.record()
    torch.cuda.synchronize()
    return [round(a.elapsed_time(b) * 1e3, 2) for a, b in itertools.pairwise(events)]


def device_intervals(fn: Callable[[], object]) -> list[tuple[str, float, float]]:
    """(name, begin, end in us) of all that the device did for `fn`, in order, as CUPTI reports it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        fn()
        torch.cuda.synchronize()
    found = [
        (event.name, event.time_range.start, event.time_range.end)
        for event in profile.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return sorted(found, key=lambda row: row[1])


def busy_us(intervals: Sequence[tuple[str, float, float]], bridged_us: float = 0.0) -> float:
    """Length of the union of the intervals; gaps of up to `bridged_us` count as if they were busy."""
    total, until = 0.0, -1e18
    for _, begin, end in intervals:
        if begin <= until + bridged_us:
            total += max(end - until, 0.0)
        else:
            total += end - begin
        until = max(until, end)
    return total


def by_name(intervals: Sequence[tuple[str, float, float]], turns: int) -> list[tuple[str, float, float]]:
    """(name, launches, us) a turn, the longest first."""
    found = defaultdict(list)
    for name, begin, end in intervals:
        found[name].append(end - begin)
    rows = [(name[:90], len(times) / turns, round(sum(times) / turns, 2)) for name, times in found.items()]
    return sorted(rows, key=lambda row: -row[2])


def enqueue_ns(calls: dict[str, Callable[[], object]], rounds: int = 40, each: int = 50) -> dict[str, list[int]]:
    """Host time of single launches, the calls taking turns; the queue never fills, for each turn ends in a wait."""
    samples: dict[str, list[int]] = {name: [] for name in calls}
    now = time.perf_counter_ns
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            torch.cuda.synchronize()
            for _ in range(each):
                began = now()
                call()
                samples[name].append(now() - began)
            torch.cuda.synchronize()
    return samples


def quartiles(samples: Sequence[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(samples, n=4)
    return {"p25": round(low, 2), "median": round(middle, 2), "p75": round(high, 2), "n": len(samples)}


def ceilings() -> dict[str, Any]:
    """What this GPU reaches: bytes read and written by a copy of 4 GiB, and bf16 products of 8192 on random data."""
    source = torch.empty(1 << 30, dtype=torch.float32, device=DEVICE).uniform_()
    target = torch.empty_like(source)
    kernel_us = replays_us(lambda: torch.neg(source, out=target))
    ways = {"copy_": _eager_us(lambda: target.copy_(source)), "kernel": kernel_us}
    rates = {way: 2 * source.nbytes / (statistics.median(us) * 1e-6) for way, us in ways.items()}
    a, b = (torch.randn((8192, 8192), device=DEVICE).to(torch.bfloat16) for _ in range(2))
    product = torch.empty_like(a)
    product_us = replays_us(lambda: torch.mm(a, b, out=product))
    return {
        "copy_us": ways, "copy_bytes": source.nbytes, "copy_rates": rates, "copy_bytes_per_s": max(rates.values()),
        "matmul_us": product_us, "matmul_flops_per_s": 2 * 8192**3 / (statistics.median(product_us) * 1e-6),
    }


def _eager_us(fn: Callable[[], object], times: int = 20) -> list[float]:
    for _ in range(3):
        fn()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    events[0].record()
    for event in events[1:]:
        fn()
        event.record()
    torch.cuda.synchronize()
    return [round(a.elapsed_time(b) * 1e3, 2) for a, b in itertools.pairwise(events)]
