"""Checks of the recorder on a GPU: spans, the clock corridor, captures while events are read, what it synchronises."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch

from ...instrumentation.probe import Ledger, NullProbe, Probe
from ...runner.config import RunnerConfig
from ...runner.devices.base import GraphKey, Work
from ...runner.devices.cuda_factory import make_cuda
from ...runner.model_runner import build_runner
from ...workloads.scheduler import Scheduler, SchedulerConfig
from .answers import SHARED, SIZES, random_requests
from .check import Check, Finding, Setting, exact, replaced, within
from .gpu import NEEDS, WHY, nothing, sleep, traced

PHASES = ("preprocess", "forward", "sample")
SYNCHRONISING = ("cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")
_SPAN = 3
"""Of a row of `phases`: step, name, host_ns, span_ns."""


def _spans(setting: Setting) -> Sequence[Finding]:
    """Device time of phases: kernels of random length in random phases; the phases' spans against CUPTI's kernels."""
    rng, ledger = setting.random("spans"), Ledger()
    count = setting.count(400, 60)
    dosed = [rng.choice(PHASES) for _ in range(count)]
    with closing(make_cuda(ledger)) as device:
        probe = Probe(ledger, device.clock, marks=device)

        def work() -> None:
            for number in range(count):
                sleep(device, 1_500)  # the stream is busy, so that a span is the kernel and not the host's launch
                with probe.step(number) as step:
                    for name in PHASES:
                        with step.phase(name):
                            if name == dosed[number]:
                                sleep(device, rng.uniform(5, 400))
                device.host_wait(device.record("compute"), "step")

        kernels = [event for event in traced(work) if event.category == "kernel"]
        device.synchronize()
        probe.finish()
        rows: list[Any] = ledger.take()["phases"]
    spans = {(row[0], row[1]): row[_SPAN] if row[_SPAN] is not None else -(10**9) for row in rows}
    truth = np.array([event.end_ns - event.start_ns for event in kernels[1::2]])
    read = np.array([spans[number, name] for number, name in enumerate(dosed)], dtype=np.float64)
    leaked = sum(abs(spans[n, name]) for n, own in enumerate(dosed) for name in PHASES if name != own)
    slope, intercept = np.polyfit(truth, read, 1)
    return [
        within(f"{count} kernels of 5 to 400 us: slope of span_ns against CUPTI", float(slope), 0.99, 1.01),
        within("intercept", float(intercept) / 1e3, -6, 6, "us"),
        within("what phases without a kernel show, of all doses", 100 * leaked / float(truth.sum()), 0, 1, "%"),
    ]


def _corridor(setting: Setting) -> Sequence[Finding]:
    """The device clock fitted through launches and waits contradicts none of them; one constant offset would."""
    ledger = Ledger()
    seconds = min(setting.seconds, 6.0) if setting.quick else setting.seconds
    with closing(make_cuda(ledger)) as device:
        data = device.empty((1024,), torch.float32)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            device.launch("k", lambda: data.add_(1), Work("k"))
            device.host_wait(device.record("compute"), "clock")
            time.sleep(0.0005)
        device.synchronize()
        corridor = device._rows.corridor
        errs = sorted(err for part in corridor._segments.values() if part for err in part.errs_ns)
        broken, worst = corridor.violations_without_drift()
        found = [
            within(f"launches and waits of {seconds:g} s: constraints", sum(corridor.constraints), 80 * seconds, 1e12),
            exact("constraints broken beyond the error", 0, corridor.violations()),
            within("stated error, largest", errs[-1] / 1e3 if errs else 1e9, 0, 12, "us"),
        ]
        if seconds >= 20:  # a drift of parts per million needs time to show
            planted = f"one offset for the whole run, off by up to {worst / 1e3:.1f} us: constraints broken"
            many = within("constraints, at least", sum(corridor.constraints), 10_000, 1e12)
            found += [many, within(planted, broken, 1, 1e12)]
    return found


def _recapture(setting: Setting) -> Sequence[Finding]:
    """Graphs are captured again while thousands of events wait to be read."""
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
            except Exception:  # noqa: BLE001 - whatever the driver or torch says, it is a failed capture
                failed += 1
            device.host_wait(device.record("compute"), "round")
        device.synchronize()
        untimed = sum(row[5] is None for row in ledger.take()["spans"] if row[3] in ("kernel", "graph"))
    return [
        exact(f"{rounds} graphs captured while events are read: failures", 0, failed),
        exact("operations without times", 0, untimed),
    ]


def _calls(setting: Setting) -> Sequence[Finding]:
    """The probe adds no synchronising call: the same random requests with it and without, calls counted by CUPTI."""
    requests = random_requests(setting.random("calls"), setting.count(24, 8))
    _synchronising(requests, probed=False)  # whatever is compiled or loaded first may synchronise as well
    (bare, steps), (probed, _) = (_synchronising(requests, probed=probed) for probed in (False, True))
    return [
        within("steps of the runner that were traced", steps, 10, 1e9),
        exact("calls that synchronise, with events and ranges as without", dict(bare), dict(probed)),
    ]


def _synchronising(requests: Sequence[Any], *, probed: bool) -> tuple[Counter[str], int]:
    """(calls by name, steps) of a run of `requests` on a runner that is warm."""
    ledger = Ledger()
    config = RunnerConfig(**{**SIZES, "check": "off", "graph_mode": "full", "capture_sizes": (8, 24, 48)})
    with closing(make_cuda(ledger, timing=probed)) as device:
        probe = Probe(ledger, device.clock, marks=device) if probed else NullProbe()
        runner = build_runner(config, device, probe, ledger)
        scheduler = Scheduler(SchedulerConfig(**{name: getattr(config, name) for name in SHARED}))
        steps = 0

        def work() -> None:
            nonlocal steps
            for request in requests:
                scheduler.add_request(request)
            while scheduler.has_unfinished() or scheduler.has_pending_finished():
                scheduler.update(runner.execute(scheduler.schedule()))
                steps += 1

        events = traced(work)
    names = (event.name for event in events if event.category == "cuda_runtime")
    return Counter(name for name in names if name in SYNCHRONISING), steps


def _waiting_marks(make: Callable[..., Any]) -> Callable[..., Any]:
    """Marks, in C or in Python, that wait for the device first."""

    def made(*parts: Any) -> Any:
        marks = make(*parts)
        take = marks.take

        def waits() -> Any:
            torch.cuda.current_stream().synchronize()
            return take()

        marks.take = waits
        return marks

    return made


CHECKS = (
    Check(
        group="recorder", name="spans", point=1, run=_spans, needs=NEEDS, why=WHY,
        mutants={
            "borders_spread": replaced(
                "runner.devices.cuda_marks", "Marks.resolve",
                lambda whole: lambda self, mark, asked_ns: _spread(whole(self, mark, asked_ns)),
            ),
        },
    ),
    Check(
        group="recorder", name="corridor", point=3, run=_corridor, needs=NEEDS, why=WHY, seeded=False,
        mutants={
            "clock_in_microseconds": replaced(
                "instrumentation.device_clock", "Segment.to_host",
                lambda whole: lambda self, device_ns: (whole(self, device_ns)[0] + 50_000, whole(self, device_ns)[1]),
            ),
        },
    ),
    Check(
        group="recorder", name="recapture", point=4, run=_recapture, needs=NEEDS, why=WHY, seeded=False,
        mutants={"never_captured": replaced("runner.devices.cuda", "CudaDevice.capture", lambda whole: nothing)},
    ),
    Check(
        group="recorder", name="calls", point=2, run=_calls, needs=NEEDS, why=WHY,
        mutants={
            "waits_at_every_border": replaced("runner.devices.cuda", "make_marks", _waiting_marks),
        },
    ),
)  # fmt: skip


def _spread(known: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if known is None else (known[0] + known[0] // 50, known[1])
