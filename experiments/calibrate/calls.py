"""Host cost of each device call as Python pays it, and the latencies between host and device."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from .bench import Bench, Replayable
from .heads import slot_mapping_call
from .raw import HostCosts, Latencies, Latency
from .trace import latency_and_wakeup

GAP_NS = 200_000
"""Between two calls on an idle stream, so that none meets the one before."""
CALLS = 60


def host_costs(bench: Bench, whole: Replayable, piece: Replayable) -> HostCosts:
    """`whole` is the captured stack, `piece` one layer of it."""
    a = torch.zeros(64, device=bench.device)
    pinned, target = bench.pinned(256), bench.pinned(256)
    on_device = torch.zeros(256, dtype=torch.uint8, device=bench.device)
    event, stream = bench.event(), bench.stream()
    event.record(stream)
    bench.drain()
    return HostCosts(
        launch=bench.host_ns(lambda: a.add_(1.0)),
        slot_mapping_launch=bench.host_ns(slot_mapping_call(bench, 64)),
        graph_launch=bench.host_ns(whole.replay, repeats=200, batch=4),
        graph_launch_layer=bench.host_ns(piece.replay, repeats=200, batch=20),
        copy_h2d_pinned=bench.host_ns(lambda: on_device.copy_(pinned, non_blocking=True)),
        copy_d2h_pinned=bench.host_ns(lambda: target.copy_(on_device, non_blocking=True)),
        event_record=bench.host_ns(lambda: event.record(stream)),
        event_create_record=bench.host_ns(lambda: bench.event().record(stream)),
        event_query=bench.host_ns(event.query),
        event_synchronize_done=bench.host_ns(event.synchronize),
        stream_wait_event=bench.host_ns(lambda: bench.side_wait(event)),
        pinned_alloc_cached=bench.host_ns(lambda: bench.pinned(65536)),
        is_pinned=bench.host_ns(pinned.is_pinned),
    )


def latencies(bench: Bench, whole: Replayable) -> Latencies:
    """Of a kernel, a copy and a graph on an idle stream, from the profiler's records of both sides."""
    a = torch.zeros(64, device=bench.device)
    pinned = bench.pinned(256)
    on_device = torch.zeros(256, dtype=torch.uint8, device=bench.device)
    return Latencies(
        kernel=_latency(bench, lambda: a.add_(1.0), "cudaLaunchKernel"),
        copy=_latency(bench, lambda: on_device.copy_(pinned, non_blocking=True), "cudaMemcpyAsync"),
        graph=_latency(bench, whole.replay, "cudaGraphLaunch"),
    )


def _latency(bench: Bench, call: Callable[[], object], api: str) -> Latency:
    event, stream = bench.event(), bench.stream()

    def spaced() -> None:
        for _ in range(CALLS):
            call()
            event.record(stream)
            event.synchronize()
            until = time.perf_counter_ns() + GAP_NS
            while time.perf_counter_ns() < until:
                pass

    spaced()
    return Latency(**dict(zip(("latency_ns", "wakeup_ns"), latency_and_wakeup(bench.trace(spaced), api), strict=True)))
