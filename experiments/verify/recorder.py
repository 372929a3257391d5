"""Checks of what records: phases, steps that raise, and clocks of two devices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing, nullcontext

import numpy as np

from ...instrumentation.device_clock import ClockCorridor
from ...instrumentation.probe import Ledger, Probe
from ...instrumentation.probe.nvtx_ranges import listening
from ...instrumentation.recording.schema import STEPS
from ...runner.devices import make_device
from ...runner.devices.sim_clock import DeclaredClock, DeclaredHost
from .check import Check, Finding, Setting, exact, replaced, within

PHASES = ("preprocess", "forward", "sample")
BASE_NS = 1 << 60
MS = 1_000_000


def _phases(setting: Setting) -> Sequence[Finding]:
    """Host time of phases on a declared clock: random doses in random phases are read back."""
    rng, count = setting.random("phases"), setting.count(2_000, 200)
    ledger = Ledger()
    doses: dict[tuple[int, str], int] = {}
    clock = DeclaredClock({}, start_ns=BASE_NS)
    probe = Probe(ledger, clock, level="host")
    for number in range(count):
        dosed = rng.choice(PHASES)
        with probe.step(number) as step:
            for name in PHASES:
                with step.phase(name):
                    doses[number, name] = rng.randint(0, 400_000) if name == dosed else 0
                    clock.advance(doses[number, name])
    probe.finish()
    found = {(int(row[0]), str(row[1])): int(row[2]) for row in ledger.take()["phases"]}
    planted = np.array([doses[key] for key in doses], dtype=np.float64)
    read = np.array([found.get(key, -1) for key in doses], dtype=np.float64)
    slope, intercept = np.polyfit(planted, read, 1)
    leaked = int(read[planted == 0].max())
    return [
        within(f"{count} doses of 0 to 400 us in random phases: slope of host_ns", float(slope), 0.99, 1.01),
        within("intercept", float(intercept) / 1e3, -6, 6, "us"),
        within("most that a phase without a dose shows, of 400 us", leaked / 4e5 * 100, -1, 1, "%"),
    ]


def _exceptions(setting: Setting) -> Sequence[Finding]:
    """Three steps raise: they and no others are incomplete, and no range stays open. Looked at with and without a tool
    that listens to NVTX ranges, for steps are objects of another class then.
    """
    rng = setting.random("exceptions")
    raising = set(rng.sample(range(40), 3))
    return [*_raised(raising, _Domain()), *_raised(raising, None)]


def _raised(raising: Collection[int], domain: _Domain | None) -> list[Finding]:
    ledger, heard = Ledger(), nullcontext() if domain is None else listening(domain)
    with closing(make_device("sim", ledger=ledger, host=DeclaredHost({}))) as device, heard:
        probe = Probe(ledger, device.clock, marks=device)
        for number in range(40):
            try:
                with probe.step(number) as step, step.phase("preprocess"), probe.range("build_indices"):
                    if number in raising:
                        raise LookupError("planted")
            except LookupError:
                continue
        inside, opened = ledger.step, 0 if domain is None else domain.open
        probe.finish()
    complete = [column.name for column in STEPS].index("complete") + 1
    rows = ledger.take()["steps"]
    said = ", nobody listening" if domain is None else ""
    incomplete = sorted(row[0] for row in rows if not row[complete])
    found = [
        exact(f"3 of 40 steps raise{said}: incomplete rows", sorted(raising), incomplete),
        exact(f"rows of steps{said}", 40, len(rows)),
        exact(f"step that the ledger is in afterwards{said}", None, inside),
    ]
    if domain is not None:
        found += [
            exact("NVTX ranges that are open afterwards", 0, opened),
            within("NVTX ranges that were opened", domain.opened, 80, 1e9),
        ]
    return found


def _clock(setting: Setting) -> Sequence[Finding]:
    """The fitted offset of two planted clocks that drift apart by parts per million, seen through delayed launches."""
    rng = setting.random("clock")
    seconds = setting.count(120, 30)
    corridor, truth = ClockCorridor(), []
    offset, drift, now = rng.randint(10**15, 10**16), -2.7e-6, 0
    for number in range(seconds * 100):
        now += rng.randint(5 * MS, 15 * MS)
        drift += rng.uniform(-1, 1) * 2e-10
        offset += round(drift * 10 * MS)
        host = now + offset
        corridor.not_before(now, host - 1_000 - round(rng.expovariate(1 / 20_000)))
        corridor.not_after(now, host + 2_000 + round(rng.expovariate(1 / 30_000)))
        if number % 10 == 0:
            truth.append((now, host))
    corridor.fit()
    found = [(corridor.to_host(device), host) for device, host in truth]
    known = [(place, host) for place, host in found if place is not None]
    errs = sorted(place[1] for place, _ in known)
    return [
        exact(f"{2 * seconds * 100} constraints: broken by more than the error", 0, corridor.violations()),
        exact("planted times that lie outside the stated error", 0, sum(abs(p[0] - h) > p[1] for p, h in known)),
        within("planted times without an answer", 100 * (1 - len(known) / len(found)), 0, 0, "%"),
        within("stated error, 99th percentile", errs[len(errs) * 99 // 100] / 1e3 if errs else 1e9, 0, 12, "us"),
        within("broken with one offset for the whole run", corridor.violations_without_drift()[0], 1, 1e9),
    ]


CHECKS = (
    Check(
        group="recorder", name="phases", point=1, run=_phases,
        mutants={
            "clock_runs_slow": replaced(
                "runner.devices.sim_clock", "DeclaredClock.now_ns",
                lambda whole: lambda self: BASE_NS + (whole(self) - BASE_NS) * 97 // 100,
            ),
        },
    ),
    Check(
        group="recorder", name="exceptions", point=4, run=_exceptions,
        mutants={
            "all_complete": replaced(
                "instrumentation.probe.step", "TracedStep.__exit__",
                lambda whole: lambda self, kind, error, trace: whole(self, None, None, None),
            ),
            "ranges_left_open": replaced(
                "instrumentation.probe.nvtx_ranges", "NvtxRanges.pop_to", lambda whole: lambda self, depth: None
            ),
        },
    ),
    Check(
        group="recorder", name="clock", point=3, run=_clock,
        mutants={"no_drift": replaced("instrumentation.device_clock", "MAX_DRIFT", lambda whole: 0.0)},
    ),
)  # fmt: skip


class _Domain:
    """Counts what an NVTX domain is told."""

    def __init__(self) -> None:
        self.open = self.opened = 0

    def get_event_attributes(self, message: str) -> str:
        return message

    def push_range(self, attributes: str) -> None:
        self.open, self.opened = self.open + 1, self.opened + 1

    def pop_range(self) -> None:
        self.open -= 1
