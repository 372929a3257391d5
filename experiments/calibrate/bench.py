"""The stopwatch of a calibration: host time of a call, device time by events, graphs, and the profiler's trace.

Every estimate is a median. The machine's noise comes in stretches, so what matters is measured in rounds that lie apart
in time. Host noise only ever adds: there the least median counts. A GPU's clock also rises for a moment after a pause
(14 % were seen), so of its rounds the median counts.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from ...runner.devices.graph_kernels import graph_kernels
from .trace import TraceEvent, events_of

Call = Callable[[], object]
Said = Callable[[str], None]
"""Hears one line of progress."""
CYCLES_PER_US = 2_000
"""At most: what `torch.cuda._sleep` counts in at 1.98 GHz. A slower clock only sleeps longer."""
LAUNCH_US = 40
"""Ample for one graph, or a few kernels."""


class Replayable(Protocol):
    """A captured call."""

    kernels: tuple[str, ...] | None
    """Names of its kernels in order; None where the driver does not say."""

    def replay(self) -> object:
        """Enqueue it on the current stream."""
        ...


class Bench(Protocol):
    """What the parts of a calibration measure with; tests hand in one that measures nothing."""

    device: torch.device

    def host_ns(self, call: Call, *, repeats: int = 600, batch: int = 50) -> float:
        """Host time of one call: the least of three medians. The device is drained every `batch` calls."""
        ...

    def device_ns(self, call: Call, *, inner: int = 6, repeats: int = 5, launch_us: int = LAUNCH_US) -> float:
        """Device time of one call, from events around `inner` queued calls; median of `repeats`.

        `launch_us` is host time allowed for one call: so long the stream is kept busy before the first one starts.
        """
        ...

    def graph(self, call: Call) -> Replayable:
        """`call` captured, after one warm-up. Graphs share one memory pool: replay them one at a time."""
        ...

    def trace(self, work: Call) -> list[TraceEvent]:
        """What the profiler saw of `work` on host and device."""
        ...

    def occupy(self, microseconds: int) -> None:
        """Keep the stream busy for at least about this long."""
        ...

    def drain(self) -> None:
        """Wait until the device is idle."""
        ...

    def pinned(self, size_bytes: int) -> torch.Tensor:
        """A page-locked host tensor of bytes."""
        ...

    def event(self) -> torch.cuda.Event:
        """A timing event."""
        ...

    def stream(self) -> torch.cuda.Stream:
        """The stream that everything runs on."""
        ...

    def side_wait(self, event: torch.cuda.Event) -> None:
        """Have another stream wait for `event`."""
        ...


class GpuBench:
    """The current GPU on the current stream, which is not the default one: graphs are captured on it."""

    def __init__(self) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._stream = torch.cuda.current_stream()
        self._side = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()

    def host_ns(self, call: Call, *, repeats: int = 600, batch: int = 50) -> float:
        """See Bench."""
        call()
        return min(statistics.median(self._host_samples(call, repeats, batch)) for _ in range(3))

    def device_ns(self, call: Call, *, inner: int = 6, repeats: int = 5, launch_us: int = LAUNCH_US) -> float:
        """See Bench."""
        start, end = self.event(), self.event()
        call()
        samples: list[float] = []
        for _ in range(repeats):
            torch.cuda.synchronize()
            self.occupy(launch_us * inner)
            start.record(self._stream)
            for _ in range(inner):
                call()
            end.record(self._stream)
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(end) * 1e6 / inner)
        return statistics.median(samples)

    def graph(self, call: Call) -> Replayable:
        """See Bench."""
        call()
        torch.cuda.synchronize()
        return GpuGraph(call, self._pool)

    def trace(self, work: Call) -> list[TraceEvent]:
        """See Bench."""
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
            work()
            torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            return events_of(json.loads(path.read_text())["traceEvents"])

    def occupy(self, microseconds: int) -> None:
        """See Bench."""
        torch.cuda._sleep(microseconds * CYCLES_PER_US)

    def drain(self) -> None:
        """See Bench."""
        torch.cuda.synchronize()

    def pinned(self, size_bytes: int) -> torch.Tensor:
        """See Bench."""
        return torch.zeros(size_bytes, dtype=torch.uint8, pin_memory=True)

    def event(self) -> torch.cuda.Event:
        """See Bench."""
        return torch.cuda.Event(enable_timing=True)

    def stream(self) -> torch.cuda.Stream:
        """See Bench."""
        return self._stream

    def side_wait(self, event: torch.cuda.Event) -> None:
        """See Bench."""
        self._side.wait_event(event)

    def _host_samples(self, call: Call, repeats: int, batch: int) -> Sequence[int]:
        samples = []
        for i in range(repeats):
            if i % batch == 0:
                torch.cuda.synchronize()
            start = time.perf_counter_ns()
            call()
            samples.append(time.perf_counter_ns() - start)
        torch.cuda.synchronize()
        return samples


class GpuGraph:
    """One captured call."""

    def __init__(self, call: Call, pool: Any) -> None:
        self._graph = torch.cuda.CUDAGraph(keep_graph=True)
        self._graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            call()
        finally:
            self._graph.capture_end()
        self.kernels = graph_kernels(self._graph)
        self._graph.instantiate()

    def replay(self) -> None:
        """Enqueue it on the current stream."""
        self._graph.replay()
