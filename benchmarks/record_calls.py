"""What recording an event costs the host apart from the driver: lanes in Python and in C, on streams that do nothing.

    python   `PythonLane.record`, the event's own `record` a function of C that does nothing
    torch    the lane in C, with the same event: what is left where the driver's function is not known
    driver   the lane in C, which calls the driver; its function is one of libc that does nothing

Blocks of 100 records take turns; a figure is the median over rounds of the time of a record, less that of the loop,
with its 95 % interval; `warm` back to back, `cold` behind three small torch operations each, among 6,000 stamps.

    python benchmarks/record_calls.py
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from probe_calls import STRCMP, IdleEvent, IdleStream, small_torch
from stepscope.instrumentation.probe.native import EVENTS_SWITCH
from stepscope.runner.devices import cuda_native
from stepscope.runner.devices.cuda_events import BACKLOG, EventTimeline

RECORDS = 100


def make_lane(way: str) -> Any:
    """The lane of a timeline of its own, whose pool is full."""
    os.environ[EVENTS_SWITCH] = "1"
    cuda_native.driver_record = lambda: STRCMP if way == "driver" else 0  # type: ignore[assignment]
    line: Any = EventTimeline(IdleStream.device, IdleEvent, worker=False)  # type: ignore[arg-type]
    stream: Any = IdleStream()
    if way == "python":
        line.pool = deque()
    line.start(stream)
    return line.lane(stream, way)


def block(record: Callable[[int], object], stage: Callable[[], object]) -> float:
    """Time of a record in ns, with the loop's."""
    took_ns = 0
    for _ in range(RECORDS):
        stage()
        begin = time.perf_counter_ns()
        record(begin)
        took_ns += time.perf_counter_ns() - begin
    return took_ns / RECORDS


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    lanes = {way: make_lane(way) for way in ("python", "torch", "driver")}
    gc.collect()
    gc.freeze()
    for state, stage in (("warm", lambda: None), ("cold", small_torch())):
        found: dict[str, list[float]] = {way: [] for way in lanes}
        for number in range(300):
            bare = block(lambda now_ns: None, stage)
            for way in list(lanes) if number % 2 else list(lanes)[::-1]:
                lane = lanes[way]
                found[way].append(block(lane.record, stage) - bare)
                for stamp in [lane.waiting.popleft() for _ in range(len(lane.waiting) - BACKLOG + 2 * RECORDS)]:
                    lane.timeline.pool.append(stamp.event)
        for way, blocks in found.items():
            ordered, reach = sorted(blocks), round(len(blocks) ** 0.5)
            low, high = ordered[len(ordered) // 2 - reach], ordered[len(ordered) // 2 + reach]
            print(f"{state} {way:8}{statistics.median(ordered):6.0f} ns a record [{low:.0f} {high:.0f}]")


if __name__ == "__main__":
    main()
