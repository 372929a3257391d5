"""Checks against a real driver: CUPTI (through torch.profiler), checksums of what arrived, the clocks of a GPU.

What the truth is here is never ours: it is the profiler's record, the device's own checksum, or torch's statistics.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...instrumentation.probe import Ledger, Probe
from ...instrumentation.recording.schema import BUFFERS, COPIES
from ...runner.buffers.factory import BufferFactory
from ...runner.buffers.guards import NoGuard
from ...runner.buffers.road import Road
from ...runner.devices.base import GraphKey, Work
from ...runner.devices.cuda import CudaDevice
from ...runner.devices.cuda_engine import PRIMER_BYTES
from ...runner.devices.cuda_factory import make_cuda
from ..calibrate.trace import TraceEvent, events_of
from .check import Check, Finding, Setting, exact, replaced, within

CYCLES_PER_US = 1_700
"""torch.cuda._sleep on an H200, about."""
KIB = 1024
WHY = "its truth is a GPU's own"
NEEDS = ("cuda",)
_COPY = {column.name: at + 1 for at, column in enumerate(COPIES)}
_HAZARD = [column.name for column in BUFFERS].index("hazard") + 1


def traced(work: Callable[[], None]) -> list[TraceEvent]:
    """What the profiler saw of `work`, in the order of the device."""
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        found = events_of(json.loads(path.read_text())["traceEvents"])
    return sorted(found, key=lambda event: event.start_ns)


def sleep(device: CudaDevice, us: float) -> None:
    """Keep the compute stream busy."""
    device.launch("sleep", lambda: torch.cuda._sleep(round(us * CYCLES_PER_US)), Work("sleep"))


def _spans(setting: Setting) -> Sequence[Finding]:
    """Review (1), device side: kernels of random length, one a phase; the phase's span against CUPTI's kernel."""
    rng, ledger = setting.random("spans"), Ledger()
    count = setting.count(400, 60)
    with closing(make_cuda(ledger)) as device:
        probe = Probe(ledger, device.clock, marks=device)

        def work() -> None:
            for number in range(count):
                sleep(device, 300)  # the stream is busy, so that a span is the kernel and not the host's launch
                with probe.step(number) as step, step.phase("forward"):
                    sleep(device, rng.uniform(5, 400))
                device.host_wait(device.record("compute"), "step")

        kernels = [event for event in traced(work) if event.category == "kernel"][1::2]
        probe.finish()
        rows: list[Any] = ledger.take()["phases"]
    truth = np.array([event.end_ns - event.start_ns for event in kernels])
    read = np.array([row[3] if row[3] is not None else -1 for row in rows], dtype=np.float64)
    slope, intercept = np.polyfit(truth, read, 1)
    return [
        within(f"{count} kernels of 5 to 400 us: slope of span_ns against CUPTI", float(slope), 0.99, 1.01),
        within("intercept", float(intercept) / 1e3, -6, 6, "us"),
    ]


def _corridor(setting: Setting) -> Sequence[Finding]:
    """Review (3): launches and waits of a while constrain the clock; none is broken, and a constant offset breaks."""
    ledger = Ledger()
    seconds = min(setting.seconds, 6.0) if setting.quick else setting.seconds
    with closing(make_cuda(ledger)) as device:
        data = device.empty((1024,), torch.float32)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            device.launch("k", lambda: data.add_(1), Work("k"))
            device.host_wait(device.record("compute"), "clock")
            time.sleep(0.001)
        device.synchronize()
        corridor = device._rows.corridor
        errs = sorted(err for part in corridor._segments.values() if part for err in part.errs_ns)
        broken, _ = corridor.violations_without_drift()
        found = [
            within("launches and waits: constraints", sum(corridor.constraints), 80 * seconds, 1e12),
            exact("constraints broken beyond the error", 0, corridor.violations()),
            within("stated error, largest", errs[-1] / 1e3 if errs else 1e9, 0, 12, "us"),
        ]
        if seconds >= 20:  # a drift of parts per million needs time to show
            found.append(within("broken with one offset for the whole run", broken, 1, 1e12))
    return found


def _recapture(setting: Setting) -> Sequence[Finding]:
    """Review (4): graphs are captured again while thousands of events wait to be read."""
    ledger, rounds = Ledger(), 20
    with closing(make_cuda(ledger)) as device:
        data, key, failed = device.empty((1 << 20,), torch.float32), GraphKey("full", 64), 0
        for _ in range(rounds):
            sleep(device, 20_000)
            for _ in range(100):
                device.launch("add", lambda: data.add_(1), Work("add"))
            try:
                device.capture(key, lambda: data.mul_(1.0))
                device.replay(key, Work("forward"))
            except RuntimeError:
                failed += 1
            device.host_wait(device.record("compute"), "round")
        device.synchronize()
        untimed = sum(row[5] is None for row in ledger.take()["spans"] if row[3] in ("kernel", "graph"))
    return [
        exact(f"{rounds} graphs captured while events are read: failures", 0, failed),
        exact("operations without times", 0, untimed),
    ]


def _copies(setting: Setting) -> Sequence[Finding]:
    """Review (8): |C| of queued copies against CUPTI; idle ones are flagged, and have bounds that hold."""
    ledger, rounds = Ledger(), setting.count(25, 5)
    with closing(make_cuda(ledger)) as device:
        sizes = [size * KIB for size in (32, 128, 512, 2048, 8192)]
        pairs = [
            (device.host_tensor((size,), torch.uint8, pinned=True), device.empty((size,), torch.uint8))
            for size in sizes
        ]  # fmt: skip

        def work() -> None:
            for number in range(2 * rounds):
                for host, gpu in pairs:
                    device.synchronize()
                    if number % 2:
                        sleep(device, 900)
                    device.copy_to_device(gpu, host, buffer="queued" if number % 2 else "idle")
                    device.launch("reader", partial(gpu.add_, 1), Work("reader"))
                    device.host_wait(device.record("compute"), "copy")

        work()  # nothing is cold any more
        device.synchronize()
        ledger.take()
        events = [event for event in traced(work) if event.category == "gpu_memcpy" and "HtoD" in event.name]
        truth = [event.end_ns - event.start_ns for event in events if event.size_bytes != PRIMER_BYTES]
        device.synchronize()
        rows: list[Any] = ledger.take()["copies"]
    if len(rows) != len(truth):
        return [exact("copies of ours, and of the profiler", len(truth), len(rows))]
    queued = [(row, ns) for row, ns in zip(rows, truth, strict=True) if row[_COPY["buffer"]] == "queued"]
    timed = [row[_COPY["end_ns"]] - row[_COPY["start_ns"]] - ns for row, ns in queued if row[_COPY["start_ns"]]]
    flagged = sum(bool(row[_COPY["queued"]]) == (row[_COPY["buffer"]] == "queued") for row in rows)
    return [
        exact(f"{len(rows)} copies behind work or on an idle stream: flagged rightly", len(rows), flagged),
        exact("queued copies with times", len(queued), len(timed)),
        within("queued copies: largest difference from CUPTI", max(map(abs, timed), default=1e9) / 1e3, 0, 1.5, "us"),
    ]


def _observed(setting: Setting) -> Sequence[Finding]:
    """Review (9): the guard removed behind a sleep of 20 ms on a random subset; the truth is what arrived."""
    found = []
    for guarded in (False, True):
        corrupt, observed = _race(setting, setting.count(200, 30), guarded=guarded)
        planted = "guard on" if guarded else "guard removed, copies behind 20 ms of work at random"
        found.append(exact(f"{planted}: steps observed, of those that arrived corrupt", corrupt, observed))
        found.append(within(f"{planted}: corrupt steps", len(corrupt), *((0, 0) if guarded else (1, 1e9))))
    return found


def _race(setting: Setting, steps: int, *, guarded: bool) -> tuple[list[int], list[int]]:
    rng, ledger = setting.random("race"), Ledger()
    arrived = []
    with closing(make_cuda(ledger)) as device:
        road = Road() if guarded else Road(make_guard=lambda *_: NoGuard())
        factory = BufferFactory(device, ledger, "pinned_ring", ring_slots=2, road=road, verify=True)
        buffer = factory.buffer("planted", 4096, torch.int32)
        for number in range(steps):
            ledger.step = number
            if rng.random() < 0.2:
                sleep(device, 20_000)
            buffer.acquire()[:] = number
            buffer.publish(4096)
            with torch.cuda.stream(torch.cuda.current_stream()):
                arrived.append(buffer.gpu.clone())  # ordered behind the copy, before the next one
        ledger.step = None
        device.synchronize()
        factory.flush()
        rows: list[Any] = ledger.take()["buffers"]
    corrupt = [number for number, data in enumerate(arrived) if not bool((data == number).all())]
    return corrupt, sorted(row[0] for row in rows if row[_HAZARD] == "observed")


def _allocations(setting: Setting) -> Sequence[Finding]:
    """Review (10): a ring of 2 allocates twice, whatever it is used; 129.5 MiB lock 256 MiB; pageable copies' list."""
    ledger = Ledger()
    with closing(make_cuda(ledger)) as device:
        def count(name: str) -> int:
            return int(torch.cuda.host_memory_stats().get(name, 0))

        before = count("num_host_alloc")
        buffer = BufferFactory(device, ledger, "pinned_ring", ring_slots=2).buffer("ring", 3 << 20, torch.int32)
        for number in range(setting.count(1_000, 100)):
            buffer.acquire()[:8] = number
            buffer.publish(8)
        rings = count("num_host_alloc") - before
        held = count("allocated_bytes.current")
        device.host_tensor((round(129.5 * (1 << 20)),), torch.uint8, pinned=True)
        grown = count("allocated_bytes.current") - held
        device.synchronize()
        ledger.take()
        host, gpu = torch.zeros(4 * KIB, dtype=torch.uint8), device.empty((4 * KIB,), torch.uint8)

        def work() -> None:
            for _ in range(10):
                device.copy_to_device(gpu, host, buffer="pageable")

        events = traced(work)
        pageable = sum("Pageable -> Device" in event.name for event in events if event.category == "gpu_memcpy")
        ours = sum(row[_COPY["src_kind"]] == "pageable" for row in ledger.take()["copies"])
    return [
        exact("a ring of 2, used many times: host allocations", 2, rings),
        exact("129.5 MiB: bytes locked", 268_435_456, grown),
        exact("10 pageable copies of 4 KiB: the profiler's list", pageable, ours),
    ]


CHECKS = (
    Check(
        group="recorder", name="spans", review="1", run=_spans, needs=NEEDS, why=WHY,
        mutants={
            "unresolved": replaced("instrumentation.probe.phases", "PendingPhases.resolve", lambda whole: _nothing),
        },
    ),
    Check(
        group="recorder", name="corridor", review="3", run=_corridor, needs=NEEDS, why=WHY,
        mutants={
            "clock_in_microseconds": replaced(
                "instrumentation.device_clock", "Segment.to_host",
                lambda whole: lambda self, device_ns: (whole(self, device_ns)[0] + 50_000, whole(self, device_ns)[1]),
            ),
        },
    ),
    Check(
        group="recorder", name="recapture", review="4", run=_recapture, needs=NEEDS, why=WHY,
        mutants={"never_captured": replaced("runner.devices.cuda", "CudaDevice.capture", lambda whole: _nothing)},
    ),
    Check(
        group="overlap", name="copies", review="8", run=_copies, needs=NEEDS, why=WHY,
        mutants={
            "no_primer": replaced(
                "runner.devices.cuda_events", "StampLane.has_kernels", lambda whole: property(lambda self: False)
            ),
        },
    ),
    Check(
        group="pinned", name="observed", review="9", run=_observed, needs=NEEDS, why=WHY,
        mutants={
            "checksum_blind": replaced("runner.buffers.publication", "checksum", lambda whole: lambda t: whole(t) * 0),
        },
    ),
    Check(
        group="pinned", name="allocations", review="10", run=_allocations, needs=NEEDS, why=WHY,
        mutants={
            "a_slot_more": replaced(
                "runner.buffers.slots", "PinnedRing.__init__",
                lambda whole: lambda self, device, shape, dtype, count, guard: whole(
                    self, device, shape, dtype, count + 1, guard
                ),
            ),
        },
    ),
)  # fmt: skip


def _nothing(*_: object, **__: object) -> None:
    """A verb that does nothing."""
