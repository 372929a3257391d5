"""What recording an event costs the host: by torch, by the driver's own call through ctypes, and as a stamp of a lane.

    torch     the event's own `record`
    driver    cuEventRecord through ctypes
    python    `PythonLane.record`: torch's call, and what a stamp costs around it
    c         the lane in C, which calls cuEventRecord: what a step pays

Between two records stand four launches, as in a step, and each event comes out of a pool of 2,000 that have not been
touched for a while. Blocks of ten take turns; the figure is the median over rounds of (block - block without records),
a record, with its 95 % interval. Idle: the device is not behind the host; busy: it is.

    python benchmarks/gpu/record_ways.py
"""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from stepscope.instrumentation.probe.native import EVENTS_SWITCH, look
from stepscope.runner.devices import cuda_events, cuda_native

NUM_EVENTS = 2_000
EVENT = torch.cuda.Event.__bases__[0]


class NamedEvent(EVENT):  # type: ignore[misc, valid-type]
    """`handle` is what the driver knows it by."""

    handle: ctypes.c_void_p


def launches() -> Callable[[], None]:
    """The work between two records."""
    x = torch.randn(8, 256, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    rows = torch.arange(8, device="cuda")
    host = torch.zeros(8, dtype=torch.int32, pin_memory=True)
    gpu = torch.zeros(8, dtype=torch.int32, device="cuda")

    def work() -> None:
        (x.index_select(0, rows) @ weight).argmax(dim=-1)
        gpu.copy_(host, non_blocking=True)

    return work


def pools(stream: torch.cuda.Stream) -> tuple[list[Any], list[Any]]:
    """Events that were recorded once, and others that know their handle."""
    plain = [EVENT(enable_timing=True) for _ in range(NUM_EVENTS)]
    named = [NamedEvent(enable_timing=True) for _ in range(NUM_EVENTS)]
    for event in plain + named:
        event.record(stream)
    for event in named:
        event.handle = ctypes.c_void_p(event.cuda_event)
    return plain, named


def make_lane(stream: torch.cuda.Stream, make_pool: Callable[[Any], Any]) -> Any:
    """A lane whose pool is as large as the others'."""
    cuda_events.POOL_SIZE = NUM_EVENTS
    cuda_events.make_pool = make_pool
    line = cuda_events.EventTimeline(stream.device, worker=False)
    line.start(stream)
    return line.lane(stream)


def make_lanes(stream: torch.cuda.Stream) -> tuple[Any, Any]:
    """In Python and in C."""
    os.environ[EVENTS_SWITCH] = "1"
    if (why := look()[1]) or not cuda_native.driver_record():
        raise SystemExit(f"no lane in C: {why or 'no driver'}")
    in_c = make_lane(stream, cuda_native.make_pool)
    return make_lane(stream, lambda new_event: deque()), in_c


def give_back(lane: Any) -> None:
    """Where the pool would run dry: all of its events, so that those recorded longest ago come last."""
    if len(lane.timeline.pool) < 10:
        for stamp in lane.waiting:
            lane.timeline.pool.append(stamp.event)
        lane.waiting.clear()


def show(state: str, found: dict[str, list[float]]) -> None:
    """One line a way."""
    for name, blocks in found.items():
        over = sorted(one - other for one, other in zip(blocks, found["none"], strict=True))
        reach = round(len(over) ** 0.5)
        low, high = over[len(over) // 2 - reach], over[len(over) // 2 + reach]
        print(f"{state} {name:8}{statistics.median(over):8.0f} ns [{low:.0f} {high:.0f}]")


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[5]})
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    work = launches()
    plain, named = pools(stream)
    driver, target = ctypes.PyDLL("libcuda.so.1").cuEventRecord, ctypes.c_void_p(stream.cuda_stream)

    def by_driver(event: Any) -> None:
        if driver(event.handle, target):
            raise SystemExit("the driver refused to record")

    in_python, in_c = make_lanes(stream)
    ways: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
        "none": (lambda event: None, plain),
        "torch": (lambda event: event.record(stream), plain),
        "driver": (by_driver, named),
        "python": (lambda event: in_python.record(time.perf_counter_ns()), plain),
        "c": (lambda event: in_c.record(time.perf_counter_ns()), plain),
    }
    at = dict.fromkeys(ways, 0)

    def block(name: str, busy: bool) -> float:
        record, events = ways[name]
        part = events[at[name] : at[name] + 10]
        at[name] = (at[name] + 10) % NUM_EVENTS
        if busy:
            torch.cuda._sleep(3_000_000)
        work()
        begin = time.perf_counter_ns()
        for event in part:
            work()
            record(event)
        took_ns = (time.perf_counter_ns() - begin) / len(part)
        torch.cuda.synchronize()
        for lane in (in_c, in_python):
            give_back(lane)
        return took_ns

    gc.collect()
    gc.freeze()
    for busy in (False, True):
        found: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(300 if busy else 600):
            for name in list(ways) if number % 2 else list(ways)[::-1]:
                found[name].append(block(name, busy))
        show("busy" if busy else "idle", found)


if __name__ == "__main__":
    main()
