"""Captures built by hand, for importers and for the figures made of them: an nsys export of a few rows, a trace of a
few events."""

from __future__ import annotations

import gc
import gzip
import json
import signal
import sqlite3
from types import SimpleNamespace

import pytest


def pytest_collection_finish():
    """What is imported and collected by now stays to the end: to look through it for garbage, again and again, takes a
    sixteenth of the time of all tests. Theirs is found as before, but not every 700 objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId contextId streamId correlationId globalPid demangledName"
    " shortName graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start end deviceId contextId streamId correlationId globalPid bytes copyKind"
    " srcKind dstKind copyCount",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start end deviceId contextId streamId correlationId globalPid value bytes memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start end deviceId contextId streamId correlationId globalPid graphId"
    " graphExecId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue",
    "NVTX_EVENTS": "start end eventType rangeId text globalTid endGlobalTid textId domainId",
    "PROFILER_OVERHEAD": "start end globalTid nameId returnValue",
    "StringIds": "id value",
    "ENUM_CUDA_MEM_KIND": "id name label",
    "ENUM_CUDA_MEMCPY_OPER": "id name label",
    "META_DATA_EXPORT": "name value",
    "META_DATA_CAPTURE": "name value",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName name nameEnum value",
    "PROCESSES": "globalPid pid name",
}

TEXTS = ("text", "value", "name", "label")


def global_pid(pid, vm=1):
    """globalPid as nsys packs it."""
    return (vm << 48) | (pid << 24)


class Export:
    """An nsys export in the making: `export.add("NVTX_EVENTS", start=1, ...)`, then `export.path`."""

    def __init__(self, path):
        self.path = path
        self._names = {}
        self._made = set()
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA synchronous = OFF")  # a commit a row need not reach the disk

    def add(self, table, *, named=None, columns=None, **values):
        """A row of `table` (stored under the name `named`); what is not given is null."""
        stored = named or table
        if stored not in self._made:
            names = (columns or COLUMNS[table]).split()
            typed = ", ".join(f'"{name}"' + ("" if name in TEXTS else " INTEGER") for name in names)
            self._connection.execute(f'CREATE TABLE "{stored}" ({typed})')
            self._made.add(stored)
        names, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
        self._connection.execute(f'INSERT INTO "{stored}" ({names}) VALUES ({marks})', tuple(values.values()))
        self._connection.commit()

    def text(self, value):
        """Id of a string."""
        if value not in self._names:
            self._names[value] = len(self._names) + 1
            self.add("StringIds", id=self._names[value], value=value)
        return self._names[value]

    def kernel(self, start, end, *, correlation=0, pid=1001, device=0, stream=7, name="gemm", node=None, named=None):
        self.add(
            "CUPTI_ACTIVITY_KIND_KERNEL", named=named, start=start, end=end, deviceId=device, contextId=1,
            streamId=stream, correlationId=correlation, globalPid=global_pid(pid), demangledName=self.text(name),
            shortName=self.text(name), graphNodeId=node,
        )  # fmt: skip

    def copy(self, start, end, *, correlation=0, pid=1001, kind=1, src=0, dst=2, size=64, device=0, stream=7):
        self.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY", start=start, end=end, deviceId=device, contextId=1, streamId=stream,
            correlationId=correlation, globalPid=global_pid(pid), bytes=size, copyKind=kind, srcKind=src, dstKind=dst,
        )  # fmt: skip

    def call(self, start, end, name, *, correlation=0, pid=1001, tid=None):
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, eventClass=0,
            globalTid=global_pid(pid) | (tid or pid), correlationId=correlation, nameId=self.text(name), returnValue=0,
        )  # fmt: skip

    def range(self, start, end, name, *, pid=1001, tid=None, type_=59, domain=0, registered=False, named=None):
        words = {"textId": self.text(name)} if registered else {"text": name}
        self.add(
            "NVTX_EVENTS", named=named, start=start, end=end, eventType=type_, domainId=domain,
            globalTid=global_pid(pid) | (tid or pid), **words,
        )  # fmt: skip


@pytest.fixture
def export(tmp_path):
    made = Export(tmp_path / "capture.sqlite")
    yield made
    made._connection.close()


def event(cat, name, ts, dur, *, pid=4242, tid=4242, ph="X", **args):
    """One complete event."""
    return {"ph": ph, "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(ts, dur, correlation=0, name="gemm", device=0, stream=7, **args):
    given = {"device": device, "stream": stream, "correlation": correlation, **args}
    return event("kernel", name, ts, dur, pid=device, tid=stream, **given)


def call(ts, dur, name, correlation=0, **more):
    return event("cuda_runtime", name, ts, dur, correlation=correlation, **more)


def copy(ts, dur, name, size=64, correlation=0, device=0, stream=7):
    return event(
        "gpu_memcpy", f"Memcpy {name}", ts, dur, pid=device, tid=stream, device=device, stream=stream,
        correlation=correlation, bytes=size,
    )  # fmt: skip


@pytest.fixture
def kineto(tmp_path):
    """`kineto([events], key=value ...)` writes a trace and returns its path."""

    def write(events, name="trace.json", packed=False, **metadata):
        text = json.dumps({"schemaVersion": 1, **metadata, "traceEvents": events}).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(text) if packed else text)
        return path

    return write


@pytest.fixture
def made():
    """Makers of events: `made.kernel(ts, dur, correlation)`, `made.call(...)`, `made.copy(...)`, `made.event(...)`."""
    return SimpleNamespace(kernel=kernel, call=call, copy=copy, event=event, global_pid=global_pid)


@pytest.fixture
def ctrl_c():
    """SIGINT interrupts this process and those it starts, also where the tests themselves were started with it ignored,
    as the background jobs of a script are."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
