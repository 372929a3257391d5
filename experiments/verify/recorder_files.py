"""Checks of what a recording's files keep: large integers; rows before damage; rows of a run that was killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...instrumentation.probe import segments
from ...instrumentation.probe.segments import SegmentWriter, read_segments
from ...instrumentation.recording.meta import RecordingMeta
from ...instrumentation.recording.reader import Recording
from ...instrumentation.recording.writer import RecordingWriter
from .check import Check, Finding, Setting, exact, replaced, within

BASE_NS = 1 << 60  # beyond 2^53, where float64 would round


def _integers(setting: Setting) -> Sequence[Finding]:
    """Times beyond 2^53 beside nulls come back unchanged through segments, Parquet and pandas."""
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
    """A segment file that is cut or damaged anywhere gives the rows before that place, and says that it is torn."""
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
    """After kill -9 at random moments the segments can be read, and at most about the last second is missing."""
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


CHECKS = (
    Check(
        group="recorder", name="integers", point=5, run=_integers,
        mutants={
            "through_floats": replaced(
                "instrumentation.recording.rescue", "read_segments", lambda whole: lambda path: _floated(whole(path))
            ),
        },
    ),
    Check(
        group="recorder", name="torn", point=4, run=_torn,
        mutants={
            "checksum_ignored": replaced("instrumentation.probe.segments", "zlib", lambda whole: _NoChecksum),
            "ends_early": replaced(
                "instrumentation.probe.segments", "_payload",
                lambda whole: lambda data, position: None if position > 200 else whole(data, position),
            ),
        },
    ),
    Check(
        group="recorder", name="killed", point=4, run=_killed,
        mutants={
            "flushed_rarely": replaced("instrumentation.probe.segments", "FLUSH_INTERVAL_NS", lambda whole: 10 * whole),
        },
    ),
)  # fmt: skip


def _floated(content: segments.SegmentContent) -> segments.SegmentContent:
    for name, rows in content.rows.items():
        content.rows[name] = [tuple(int(float(v)) if isinstance(v, int) else v for v in row) for row in rows]
    return content


class _NoChecksum:
    @staticmethod
    def crc32(data: bytes) -> int:
        return 0
