"""A pencil-and-paper engine: tests say what the host does, it writes the rows that a recording would hold.

It keeps its own recurrence (start = latest of hand-over + latency, queue's tail, awaited ends) so that what the
analysis rebuilds is checked against something that it does not share code with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from stepscope.instrumentation.recording.schema import KEYS, TABLES

DTYPES = {"int64": "Int64", "float64": "Float64", "string": "string", "bool": "boolean"}


class Source:
    """Tables by name, with the schema's columns and nullable dtypes."""

    def __init__(self, rows: dict[str, list[dict]]) -> None:
        self.rows = rows
        self.frames: dict[str, pd.DataFrame] = {}

    def table(self, name: str) -> pd.DataFrame:
        if name not in self.frames:
            rows = self.rows.get(name, [])
            self.frames[name] = make_frame(name, rows) if rows else empty_frame(name)
        return self.frames[name].copy(deep=False)


def make_frame(name: str, rows: list[dict]) -> pd.DataFrame:
    """`rows` as the table `name`; columns that no row fills are made once for all tables of that length."""
    filled = {key for row in rows for key, value in row.items() if value is not None}
    return pd.DataFrame({
        column.name: made([row.get(column.name) for row in rows], DTYPES[column.type])
        if column.name in filled else nulls(DTYPES[column.type], len(rows))
        for column in (*KEYS, *TABLES[name])
    })


@functools.cache
def empty_frame(name: str) -> pd.DataFrame:
    return make_frame(name, [])


@functools.cache
def nulls(dtype: str, length: int) -> pd.api.extensions.ExtensionArray:
    return pd.array([None] * length, dtype=dtype)


def made(values: list, dtype: str) -> pd.api.extensions.ExtensionArray:
    if dtype != "Int64":
        return pd.array(values, dtype=dtype)
    mask = np.array([value is None for value in values])
    return pd.arrays.IntegerArray(np.array([value or 0 for value in values], dtype=np.int64), mask)


class Lab:
    """One process. `now` is the host's clock; every call moves it on."""

    def __init__(self, base: int = 0, pid: int | None = None) -> None:
        self.base, self.pid = base, pid
        self.now = 0
        self.step_number: int | None = None
        self.rows: dict[str, list[dict]] = {name: [] for name in TABLES}
        self.ops: dict[int, tuple[int, int]] = {}
        self.tails: dict[str, int] = {}
        self.pending: dict[str, list[int]] = {}

    def add(self, table: str, **row: object) -> dict:
        for name in ("start_ns", "end_ns", "enqueue_start_ns", "enqueue_end_ns"):
            if row.get(name) is not None:
                row[name] = row[name] + self.base
        self.rows[table].append({"step": self.step_number, "pid": self.pid, **row})
        return self.rows[table][-1]

    def host(self, duration: int) -> None:
        self.now += duration

    def _enqueue(self, lane: str, duration: int, cost: int, latency: int) -> tuple[int, int, int, int]:
        op, call = len(self.ops) + 1, self.now
        self.now += cost
        start = max(self.now + latency, self.tails.get(lane, 0))
        for awaited in self.pending.pop(lane, []):
            start = max(start, self.ops[awaited][1])
            self.add("edges", kind="event", waiting=op, awaited=awaited)
        self.ops[op] = (start, start + duration)
        self.tails[lane] = start + duration
        return op, call, start, start + duration

    def launch(self, name: str, duration: int, *, lane: str = "gpu:compute", cost: int = 4, latency: int = 3,
               kind: str = "kernel", consumes: tuple[int, ...] = (), err: int = 0) -> int:
        op, call, start, end = self._enqueue(lane, duration, cost, latency)
        self.add("spans", lane="host:main", name=name, kind="launch", start_ns=call, end_ns=self.now, err_ns=0,
                 correlation=op)
        self.add("spans", lane=lane, name=name, kind=kind, start_ns=start, end_ns=end, err_ns=err, correlation=op)
        for copy in consumes:
            self.add("edges", kind="consumer", waiting=op, awaited=copy)
        return op

    def copy(self, buffer: str, duration: int, *, lane: str = "gpu:compute", cost: int = 4, latency: int = 3,
             size: int = 1024, changed: int | None = None, err: int | None = 0, src: str = "pinned",
             is_async: bool = True) -> int:
        op, call, start, end = self._enqueue(lane, duration, cost, latency)
        if src == "blocking":  # pageable memory: the call comes back after the copy
            self.now, src = end + 5, "pageable"
        self.add("copies", direction="h2d", size_bytes=size, changed_bytes=changed, src_kind=src, dst_kind="device",
                 buffer=buffer, lane=lane, enqueue_start_ns=call, enqueue_end_ns=self.now, start_ns=start, end_ns=end,
                 err_ns=err, queued=start > self.now + latency, is_async=is_async, correlation=op)
        return op

    def stream_wait(self, lane: str, op: int) -> None:
        self.pending.setdefault(lane, []).append(op)

    def wait(self, op: int, reason: str = "tokens", overhead: int = 2, wakeup: int = 7) -> None:
        call = self.now
        self.now = max(call + overhead, self.ops[op][1] + wakeup)
        self.add("waits", lane="host:main", reason=reason, awaited=op, start_ns=call, end_ns=self.now)

    @contextmanager
    def span(self, name: str, kind: str) -> Iterator[None]:
        start = self.now
        yield
        self.add("spans", lane="host:main", name=name, kind=kind, start_ns=start, end_ns=self.now, err_ns=0)
        if kind == "phase":
            self.add("phases", name=name, host_ns=self.now - start)

    @contextmanager
    def step(self, number: int, **figures: object) -> Iterator[None]:
        previous = self.rows["steps"][-1] if self.rows["steps"] else None
        if previous is not None:
            previous["period_ns"] = self.now + self.base - previous["start_ns"]
            self.step_number = previous["step"]
            self.add("phases", name="between_steps", host_ns=self.now + self.base - previous["end_ns"])
        self.step_number, start = number, self.now
        yield
        self.add("steps", **{"start_ns": start, "end_ns": self.now, "warmup": False, "complete": True, **figures})
        self.step_number = None

    def recording(self) -> Source:
        return Source(self.rows)


@pytest.fixture
def lab() -> Callable[..., Lab]:
    return Lab


@pytest.fixture
def source() -> Callable[..., Source]:
    """Make a recording of hand-written rows: source(steps=[{...}], copies=[...])."""
    return lambda **rows: Source(rows)


def run_steps(lab: Lab, count: int, *, order: str = "first", in_flight: int = 1, copy_ns: int = 155,
              lane: str = "gpu:compute", forward_ns: int = 488, build_ns: int = 60, other_ns: int = 40,
              between_ns: int = 10) -> Lab:
    """A small engine loop: commit, build, small copy, slot mapping (first consumer), forward, sample; tokens awaited.

    `in_flight` steps may be in the queue: the host waits for the tokens of step n - in_flight + 1 at its end.
    """
    samples: list[int] = []
    for number in range(count):
        with lab.step(number, num_tokens=8, num_reqs=8):
            with lab.span("preprocess", "phase"):
                table = lab.copy("block_table", copy_ns, lane=lane) if order == "first" else 0
                with lab.span("build_indices", "range"):
                    lab.host(build_ns)
                lab.copy("ids", 6)
                if order == "last":
                    table = lab.copy("block_table", copy_ns, lane=lane)
                if lane != "gpu:compute" and table:
                    lab.stream_wait("gpu:compute", table)
                lab.launch("slot_mapping", 5, consumes=(table,) if table else ())
                lab.host(other_ns)
            with lab.span("forward", "phase"):
                lab.launch("forward", forward_ns, kind="graph")
            with lab.span("sample", "phase"):
                samples.append(lab.launch("sample", 20))
                if len(samples) >= in_flight:
                    lab.wait(samples[len(samples) - in_flight])
        lab.host(between_ns)
    return lab


@pytest.fixture
def steps() -> Callable[..., Lab]:
    return run_steps
