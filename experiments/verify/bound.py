"""Check of what binds a step: planted host- and device-bound runs on `sim`, and whether more host work is felt."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from statistics import median

import torch

from ...analysis.gaps import gaps
from ...instrumentation.probe import Ledger, Probe
from ...instrumentation.recording.meta import RecordingMeta
from ...instrumentation.recording.reader import Recording
from ...runner.devices import make_device
from ...runner.devices.base import Event, GraphKey, Work
from ...runner.devices.sim_clock import DeclaredHost
from .check import Check, Finding, Setting, exact, replaced

KEY = GraphKey("full", 64, 64)
STEPS = 14
INJECTED_NS = 50_000
IN_FLIGHT = 2
"""Steps. With one host and device wait for each other, and all host work is felt."""


def run_pipeline(host_ns: int) -> tuple[Recording, float]:
    """A step with `host_ns` of preparation before a graph of 64 tokens, two in flight; its recording and period."""
    ledger = Ledger()
    host = DeclaredHost({"build_indices": host_ns})
    with closing(make_device("sim", ledger=ledger, host=host)) as device:
        device.capture(KEY, lambda: torch.zeros(1))
        ledger.take()
        probe = Probe(ledger, device.clock, marks=device)
        source = device.host_tensor((65_536,), torch.uint8, pinned=True)
        table, tokens = device.empty((65_536,), torch.uint8), device.host_tensor((256,), torch.uint8, pinned=True)
        flight: deque[Event] = deque()
        starts = []
        for number in range(STEPS):
            with probe.step(number) as step:
                starts.append(probe.last_start_ns)
                with step.phase("preprocess"), probe.range("build_indices"):
                    copy = device.copy_to_device(table, source, buffer="block_table")
                with step.phase("forward"):
                    device.replay(KEY, Work("forward", tokens=64, rows=64), consumes=(copy,))
                with step.phase("sample"):
                    device.copy_to_host(tokens, tokens.clone(), buffer="tokens")
                    flight.append(device.record("compute"))
                    if len(flight) >= IN_FLIGHT:
                        device.host_wait(flight.popleft(), "tokens")
        device.synchronize()
        probe.finish()
    meta = RecordingMeta(source="lab", device="sim", modelled=True, calibration="bundled")
    periods = [later - earlier for earlier, later in pairwise(starts)]
    return Recording.from_ledger(ledger, meta), float(median(periods[4:]))


def _bound(setting: Setting) -> Sequence[Finding]:
    """Simulated runs bound by the host and by the device are told apart, also with 50 us more host work a step."""
    rng = setting.random("bound")
    count = setting.count(20, 3)
    findings = []
    for kind, low, high in (("host", 1_200_000, 3_000_000), ("device", 20_000, 600_000)):
        called, moved = [], []
        for _ in range(count):
            host_ns = rng.randint(low, high)
            recording, period = run_pipeline(host_ns)
            called.append(gaps(recording).bound)
            moved.append(run_pipeline(host_ns + INJECTED_NS)[1] - period)
        felt = sum(ns >= 40_000 for ns in moved) if kind == "host" else sum(abs(ns) <= 10_000 for ns in moved)
        most = "moves the period by 40 us or more" if kind == "host" else "moves the period by 10 us at most"
        findings.append(exact(f"{count} {kind}-bound runs: called so", count, called.count(kind)))
        findings.append(exact(f"{count} {kind}-bound runs: 50 us of host work {most}", count, felt))
    return findings


CHECKS = (
    Check(
        group="overlap", name="bound", point=8, run=_bound,
        mutants={
            "idle_ignored": replaced("analysis.gaps", "_waited_for", lambda whole: lambda root, by_copy: "device"),
            "always_host": replaced("analysis.gaps", "_judge", lambda whole: lambda *a: {**whole(*a), "bound": "host"}),
            "nothing_injected": replaced("experiments.verify.bound", "INJECTED_NS", lambda whole: 0),
            "nothing_in_flight": replaced("experiments.verify.bound", "IN_FLIGHT", lambda whole: 1),
        },
    ),
)  # fmt: skip
