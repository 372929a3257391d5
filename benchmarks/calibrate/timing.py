"""Timing helpers: host cost of a call, device time by events, CUPTI records by torch.profiler."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def host_ns(call: Callable[[], object], repeats: int = 2000, batch: int = 50) -> float:
    """Median host time of one call, in ns; the device is drained every `batch` calls so that no queue fills up."""
    samples = []
    for i in range(repeats):
        if i % batch == 0:
            torch.cuda.synchronize()
        start = time.perf_counter_ns()
        call()
        samples.append(time.perf_counter_ns() - start)
    torch.cuda.synchronize()
    return statistics.median(samples)


def device_ns(call: Callable[[], object], inner: int = 10, repeats: int = 5) -> float:
    """Median device time of one call, in ns, from events around `inner` back-to-back calls."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    samples = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        torch.cuda._sleep(3_000_000)  # 1.5 ms of busy stream: all calls queue up behind it, so no launch gap is timed
        start.record()
        for _ in range(inner):
            call()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) * 1e6 / inner)
    return statistics.median(samples)


def graph_of(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """`call` captured after one warm-up on a side stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def cupti(work: Callable[[], object]) -> list[dict[str, Any]]:
    """Trace events of `work` as torch.profiler exports them; times in microseconds (floats at small offsets)."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]
