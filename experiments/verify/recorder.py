"""Checks of what records: clocks, phases, borders, integers, and files of a run that was killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ...instrumentation.device_clock import ClockCorridor
from ...instrumentation.probe import Ledger, Probe, segments
from ...instrumentation.probe.nvtx_ranges import listening
from ...instrumentation.probe.segments import SegmentWriter, read_segments
from ...instrumentation.recording.meta import RecordingMeta
from ...instrumentation.recording.reader import Recording
from ...instrumentation.recording.schema import STEPS
from ...instrumentation.recording.writer import RecordingWriter
from ...runner.devices import make_device
from ...runner.devices.sim_clock import DeclaredClock, DeclaredHost
from .check import Check, Finding, Setting, exact, replaced, within

PHASES = ("preprocess", "forward", "sample")
BASE_NS = 1 << 60
MS = 1_000_000


def _phases(setting: Setting) -> Sequence[Finding]:
    """Review (1), host side on a declared clock: random doses in random phases, read back as host time."""
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
    """Review (4): three steps raise; they and no others are incomplete, and nothing is left open. Steps are other
    objects while a tool listens to NVTX ranges.
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


def _integers(setting: Setting) -> Sequence[Finding]:
    """Review (5): times beyond 2^53 beside nulls, through segments, Parquet and pandas."""
    rng = setting.random("integers")
    count = setting.count(20_000, 500)
    starts = [BASE_NS + rng.getrandbits(40) if rng.random() < 0.8 else None for _ in range(count)]
    rows = [(at, "host:main", "r", "range", 0, start, None, None, None) for at, start in enumerate(starts)]
    with tempfile.TemporaryDirectory() as folder:
        writer = RecordingWriter(folder, RecordingMeta(source="lab", device="cpu"))
        writer.write({"spans": rows})
        writer.finish()
        column = Recording.load(Path(folder)).table("spans")["start_ns"]
    read: list[Any] = [None if null else int(value) for value, null in zip(column, column.isna(), strict=True)]
    wrong = sum(found != start for found, start in zip(read, starts, strict=True))
    return [exact(f"{count} times around 2^60, a fifth of them null: values that came back changed", 0, wrong)]


def _torn(setting: Setting) -> Sequence[Finding]:
    """Review (4): a file that ends, or is damaged, anywhere gives the rows before that place and counts the rest."""
    rng = setting.random("torn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "segments"
        writer = SegmentWriter(path)
        for first in range(0, 60, 3):
            writer.add("t", [(row, "x" * 7) for row in range(first, first + 3)])
            writer.flush()
            while path.read_bytes().count(b'"t"') * 3 <= first:  # one record a flush: the writer's thread is another
                time.sleep(0.001)
        writer.close()
        whole = path.read_bytes()
        head = len(segments.MAGIC) + 2
        ends = _record_ends(whole)
        wrong = unnoticed = 0
        for _ in range(setting.count(400, 60)):
            cut = rng.randrange(head, len(whole))
            damaged = bytearray(whole)
            if rng.random() < 0.5:
                damaged = damaged[:cut]
            else:
                damaged[cut] ^= 1 << rng.randrange(8)
            path.write_bytes(bytes(damaged))
            try:
                content = read_segments(path)
            except (ValueError, KeyError):  # of a record that is no text any more, or no row
                wrong += 1
                continue
            before = 3 * bisect_right(ends, cut)
            wrong += content.rows.get("t", []) != [(row, "x" * 7) for row in range(before)]
            unnoticed += content.closed and not content.torn_bytes
    return [
        exact("files cut or damaged at random: rows unlike those before that place", 0, wrong),
        exact("damage that went unnoticed", 0, unnoticed),
    ]


def _record_ends(whole: bytes) -> list[int]:
    """Where each record of rows ends, by its text: the next one's begins behind a header of eight bytes."""
    begins = [at.start() - 8 for at in re.finditer(rb'{"(t|dropped)"', whole)]
    return begins[1:]


_CHILD = """
import sys, time
from stepscope.instrumentation.probe.segments import SegmentWriter
writer = SegmentWriter(sys.argv[1], flush_interval_ns=int(sys.argv[2]))
print("ready", flush=True)
while True:
    now = time.monotonic_ns()
    writer.add("t", [(now,)])
    writer.flush_if_due(now)
    time.sleep(0.002)
"""


def _killed(setting: Setting) -> Sequence[Finding]:
    """Review (4): kill -9 at random moments; what is on disk can be read and ends at most about a second before."""
    rng = setting.random("killed")
    moments = [rng.uniform(1.1, 2.0) for _ in range(setting.count(20, 1))]
    with ThreadPoolExecutor(os.cpu_count()) as together:
        lost = list(together.map(_kill_one, moments))
    return [within(f"{len(lost)} runs killed at random moments: most that was lost", max(lost) / 1e9, 0, 1.25, "s")]


def _kill_one(after_s: float) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "segments"
        command = [sys.executable, "-c", _CHILD, str(path), str(segments.FLUSH_INTERVAL_NS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(after_s)
            child.send_signal(signal.SIGKILL)
            killed_ns = time.monotonic_ns()
        rows = read_segments(path).rows.get("t", [])
    return killed_ns - rows[-1][0] if rows else 10**10


def _clock(setting: Setting) -> Sequence[Finding]:
    """Review (3) on a planted pair of clocks: offset, drift of parts per million that changes, delays of launches."""
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
        group="recorder", name="phases", review="1", run=_phases,
        mutants={
            "clock_runs_slow": replaced(
                "runner.devices.sim_clock", "DeclaredClock.now_ns",
                lambda whole: lambda self: BASE_NS + (whole(self) - BASE_NS) * 97 // 100,
            ),
        },
    ),
    Check(
        group="recorder", name="exceptions", review="4", run=_exceptions,
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
        group="recorder", name="integers", review="5", run=_integers,
        mutants={
            "through_floats": replaced(
                "instrumentation.recording.rescue", "read_segments", lambda whole: lambda path: _floated(whole(path))
            ),
        },
    ),
    Check(
        group="recorder", name="torn", review="4", run=_torn,
        mutants={
            "checksum_ignored": replaced("instrumentation.probe.segments", "zlib", lambda whole: _NoChecksum),
            "ends_early": replaced(
                "instrumentation.probe.segments", "_payload",
                lambda whole: lambda data, position: None if position > 200 else whole(data, position),
            ),
        },
    ),
    Check(
        group="recorder", name="killed", review="4", run=_killed,
        mutants={
            "flushed_rarely": replaced("instrumentation.probe.segments", "FLUSH_INTERVAL_NS", lambda whole: 10 * whole),
        },
    ),
    Check(
        group="recorder", name="clock", review="3", run=_clock,
        mutants={"no_drift": replaced("instrumentation.device_clock", "MAX_DRIFT", lambda whole: 0.0)},
    ),
)  # fmt: skip


def _floated(content: segments.SegmentContent) -> segments.SegmentContent:
    for name, rows in content.rows.items():
        content.rows[name] = [tuple(int(float(v)) if isinstance(v, int) else v for v in row) for row in rows]
    return content


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


class _NoChecksum:
    @staticmethod
    def crc32(data: bytes) -> int:
        return 0
